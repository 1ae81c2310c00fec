"""`multicause demo`: a photograph and some bars, from data to a page with pictures."""

from pathlib import Path

import click


@click.command("demo")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo",
    show_default=True,
    help="Folder.",
)
@click.option("--open/--no-open", "open_page", default=False, help="Open the page in a browser.  [default: no-open]")
def command(output: Path, open_page: bool) -> None:
    """Show a denoised photograph and learned bars on a page."""
    from multicause.cli.demo_examples import EXAMPLES, learn
    from multicause.cli.demo_page import READ_ON, pictures, sections
    from multicause.cli.demo_photograph import TITLE, denoise_photograph, pictures_of, sections_of
    from multicause.cli.pictures import write_png
    from multicause.report import write_report

    output.mkdir(parents=True, exist_ok=True)
    photograph = denoise_photograph()
    click.echo(f"{TITLE}: {photograph.verdict()}, in {photograph.seconds:.1f} s")
    drawn = pictures_of(photograph)
    for name, figure in drawn.items():
        write_png(output / f"photograph-{name}.png", figure)
    all_sections = sections_of(photograph, drawn)
    for example in EXAMPLES:
        learned = learn(example)
        found = learned.recovery.found
        click.echo(f"{example.title}: {found.sum()} of {len(found)} causes found in {learned.seconds:.1f} s")
        drawn = pictures(learned)
        for name, figure in drawn.items():
            write_png(output / f"{example.name}-{name}.png", figure)
        all_sections += sections(learned, drawn)
    all_sections.append(READ_ON)
    page = output / "index.html"
    write_report(page, "multicause: the few hidden causes behind each data point", all_sections)
    click.echo(f"Look at {page}")
    if open_page:
        import webbrowser

        webbrowser.open(page.absolute().as_uri())
