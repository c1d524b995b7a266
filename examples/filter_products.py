"""Search a made-up catalogue by pictures of products, among those that have a price, a size or a colour."""

import numpy as np

from supquant import CodeIndex, SupervisedQuantizer

SHAPES = {  # 9 x 9 pixels each
    "shirt": "1.11.11.1 111111111 111111111 .1111111. ..11111.. ..11111.. ..11111.. ..11111.. ..11111..",
    "trousers": ".1111111. .1111111. .1111111. .111.111. .111.111. .111.111. .111.111. .111.111. .111.111.",
    "mug": "......... .11111... .11111111 .11111..1 .11111..1 .11111111 .11111... .11111... .........",
    "lamp": "...111... ..11111.. ..11111.. .1111111. 111111111 ....1.... ....1.... ....1.... ..11111..",
    "boot": "..1111... ..1111... ..1111... ..1111... ..1111... ..11111.. ..1111111 ..1111111 ..1111111",
    "hat": "......... ...111... ..11111.. ..11111.. ..11111.. ..11111.. 111111111 111111111 .........",
}
COLOURS = {
    "red": (0.8, 0.2, 0.2),
    "green": (0.2, 0.6, 0.3),
    "blue": (0.2, 0.35, 0.8),
    "black": (0.15, 0.15, 0.15),
}
N_PRODUCTS = 1200

rng = np.random.default_rng(0)
masks = np.array([[[pixel == "1" for pixel in line] for line in rows.split()] for rows in SHAPES.values()])
kind, colour = rng.integers(len(SHAPES), size=N_PRODUCTS), rng.integers(len(COLOURS), size=N_PRODUCTS)
paint = np.array(list(COLOURS.values()))[colour] * rng.uniform(0.7, 1.2, (N_PRODUCTS, 1))  # (n, 3)
shifts = rng.integers(-1, 2, (N_PRODUCTS, 2))
shifted = np.array([np.roll(masks[row], shift, (0, 1)) for row, shift in zip(kind, shifts, strict=True)])
pictures = np.where(shifted[..., None], paint[:, None, None], 1.0)  # (n, 9, 9, 3), 0 to 1
pictures = np.clip(pictures + rng.normal(0, 0.12, pictures.shape), 0, 1)
X = pictures.reshape(N_PRODUCTS, -1).astype(np.float32)  # an encoder of pictures would make better vectors

catalogue = {
    "kind": np.array(list(SHAPES))[kind],
    "colour": np.array(list(COLOURS))[colour],
    "price": rng.integers(5, 100, N_PRODUCTS),
    "stock": rng.poisson(2, N_PRODUCTS),
}
labels = [name if row % 4 == 0 else None for row, name in enumerate(catalogue["kind"])]  # a quarter is sorted

index = CodeIndex(SupervisedQuantizer(4, random_state=0).fit(X, labels)).add(X, labels, metadata=catalogue)
query = 2
print(f"like product {query}, a {catalogue['colour'][query]} {catalogue['kind'][query]}:")
conditions = ["stock > 0", "stock > 0 and price < 30", "stock > 0 and price < 30 and colour = 'red'"]
found = {where: index.search_table(X[query], k=6, where=where).to_pylist() for where in conditions}
for where, rows in found.items():
    shown = ", ".join(f"{row['colour']} {row['kind']} for {row['price']}" for row in rows)
    print(f"  {where}: {shown}")

cheap = index.filter("stock > 0 and price < 30")  # evaluated once, for any number of searches
_, ids = index.search(X[:200], k=6, where=cheap)
right = np.mean(catalogue["kind"][ids] == catalogue["kind"][:200, None])
print(f"{right:.0%} of the answers to 200 queries are of the kind of the query")
