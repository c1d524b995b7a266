from supquant_lab.cli.opponent_tables import BEGIN, END

SMALL = ("--data", "digits", "--rows", 400, "--protocol", "open", "--method", "cosine,binary", "--seeds", "0")


def test_a_run_prints_tables_and_later_writes_them_into_a_page(run, tmp_path):
    told = ("bench", "opponents", "--results", tmp_path / "records")
    result = run(*told, *SMALL)
    assert result.exit_code == 0, result.output
    assert "Measuring open-digits-400rows-binary-64bits-seed0 (2 of 2)" in result.stderr
    assert "`cosine`" in result.output
    again = run(*told, *SMALL)
    assert "Measuring" not in again.stderr
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n{BEGIN}\n{END}\nAfter.\n")
    assert run(*told, "--page", page).exit_code == 0
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("Before.", "After.")
    assert sum(line.startswith("| `") for line in lines) == 2


def test_a_page_needs_records(run, tmp_path):
    result = run("bench", "opponents", "--results", tmp_path, "--page", tmp_path / "page.md")
    assert result.exit_code == 2
    assert "holds no record of opponents" in result.output
