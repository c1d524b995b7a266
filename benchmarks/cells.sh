# What the scripts in this folder share. A cell is a file, FOLDER/NAME.json, until `fold` makes it a line of
# FOLDER/<data set>.jsonl.xz; `supquant results` reads both.
supquant=${SUPQUANT:-supquant}

# there FOLDER NAME: whether a cell has been measured; * in NAME stands for any letters
there() {
    compgen -G "$1/$2.json" > /dev/null || xzgrep -q "^{\"name\":\"${2//\*/[^\"]*}\"" "$1"/*.jsonl.xz 2> /dev/null
}

# fold FOLDER: move the finished cells of a folder, and of those in it, into one file a data set
fold() {
    [[ ! -d $1 ]] || $supquant results "$1" --fold
}
