from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_facts, print_json, size
from .dossier import AuditOption, Dossier, MinCount, SmallCounts, audited, count_rule
from .reading import reads_files
from .terminal import AsJson, ElectionFile, Workers, session

EXAMPLE = (
    "Example: oneballot cast election.toml --party clinic-a --data a.csv --to box/ (or: --to sftp://clinic-a@host/box)"
)

READABLE = (
    "Anyone who can read the file can read them; in a folder that is only its owner (mode 0600). Agree on a server_key "
    "to encrypt ballots"
)


@reads_files("data")
def command(
    election: ElectionFile,
    party: Annotated[str, typer.Option(help="Your name in this election.")],
    data: Annotated[Path, typer.Option(help="Your rows, with labels: CSV, Excel, Parquet, NPZ or LIBSVM.")],
    to: Annotated[
        str | None,
        typer.Option(help="The box: a folder, or s3://, sftp://, webdav+https://, https://. Default: do not deliver."),
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Your secret key. Default: PARTY.key.")] = None,
    keep: Annotated[Path, typer.Option(help="The folder for your own copy of the ballot.")] = Path("ballots"),
    learner: Annotated[
        list[str] | None,
        typer.Option(
            help="Your own learner: [ROLE=]NAME[:KEY=VALUE,…], e.g. teacher=xgboost:rounds=20, or "
            "sklearn:estimator=RandomForestClassifier,params.n_estimators=500."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, and show what would be sent and spent.")
    ] = False,
    recast: Annotated[bool, typer.Option("--recast", help="Train again although a ballot was already cast.")] = False,
    resign: Annotated[
        bool, typer.Option("--resign", help="Sign the kept ballot again with your new key; nothing is trained.")
    ] = False,
    data_dependent: Annotated[
        bool,
        typer.Option("--data-dependent", help="At L2: also show the cost of your actual votes; do not publish."),
    ] = False,
    holdout: Annotated[
        float | None,
        typer.Option(min=0.01, max=0.9, help="Keep this share of your rows back, to test the outcome (benefit)."),
    ] = None,
    dossier: Dossier = None,
    min_count: MinCount = None,
    small_counts: SmallCounts = None,
    audit: AuditOption = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Train on your own rows and put one ballot into the box.

    The sealed ballot is written to your own disk before it is delivered. Running the command again delivers the same
    bytes; it does not train again. To show a board what leaves: cast with --dossier FILE.html and without --to, and
    when the page is signed run the command again with --to BOX.
    """
    with session(as_json, workers):
        from ..ballot.rows_held import RowsHeld
        from ..boxes import box_at
        from ..election.election import Election
        from ..errors import ElectionError
        from ..party.author import recognize_author
        from ..party.outbox import kept_digest
        from ..party.preview import preview
        from ..party.submit import cast_file
        from ..report.dossier.write import Reviewer, check_page

        if recast and resign:
            raise ElectionError("choose one: --recast trains again, --resign signs the kept ballot again")
        agreed = Election.read(election)
        author = recognize_author(election, agreed, party, keep, remember=not dry_run)
        box = None if to is None else box_at(to)
        beside = election.parent
        asked = dossier is not None or min_count is not None or small_counts is not None
        rule, review = count_rule(min_count, small_counts) if asked else None, None
        if dossier is not None:
            check_page(dossier, None if recast or dry_run else kept_digest(agreed, party, keep))
            review = Reviewer(dossier, audited(audit, agreed, dossier))
        elif audit is not None:
            raise ElectionError("--audit is for the dossier: give --dossier FILE.html too, or run `oneballot audit`")
        if dry_run:
            plan = preview(
                agreed,
                party,
                data,
                keep=keep,
                key=key,
                beside=beside,
                choices=learner or (),
                recast=recast,
                holdout=holdout,
                rule=rule,
                review=review,
            )
            plan["election"] += f", signed with {author}" if author else ""
            written = {"dossier": review.written} if review else {}
            if as_json:
                print_json(plan | written)
                return
            if review:
                plan["dossier"] = f"{review.written['page']} (and {review.written['json']})"
            print_facts({name.replace("_", " "): value for name, value in plan.items()}, width=16)
            return
        done = cast_file(
            agreed,
            party,
            data,
            box=box,
            key=key,
            keep=keep,
            beside=beside,
            choices=learner or (),
            recast=recast,
            resign=resign,
            data_dependent=data_dependent,
            holdout=holdout,
            rule=rule,
            review=review,
        )
        if as_json:
            print_json(done | ({"dossier": review.written} if review else {}))
            return
        how = "Sealed" if done["trained"] else "Already cast, so your data was not read (--recast trains again)"
        print(f"{how}: {done['ballot']}, {size(done['bytes'])}.")
        if done["abstained"]:
            print(f"It is an abstention: {done['abstained']}.")
        if held := RowsHeld(done["rows_held"]).describe():
            where = "Only the holder of the server's key can read them" if done["encrypted_to"] else READABLE
            print(f"The ballot {held}. {where}.")
        if done["small_count"]:
            print(done["small_count"])
        print("Privacy", "\n  ".join(done["privacy_spent"]))
        for line in done["expect"]:
            print(line)
        if data_dependent:
            print(f"DO NOT PUBLISH: {done['do_not_publish']}.")
        if done["encrypted_to"]:
            copy = f"{done['ballot']}.open is your own readable copy"
            if agreed.tallies is not None:
                copy = "Nobody alone can read it, and no readable copy is kept"
            print(f"Encrypted to {done['encrypted_to']}. {copy}.")
        if review:
            how = "describes this ballot already" if review.written["written"] == "unchanged" else "shows what leaves"
            print(f"{review.written['page']} {how}; {review.written['json']} is the same for machines.")
            if box:
                print("To have the page signed before anything leaves, cast without --to, and again with --to.")
        print(f"{done['receipt']} is your receipt. When the outcome is published: oneballot receipt RECEIPT OUTCOME")
        print(
            f"Delivered to {box}, as {done['name']}."
            if box
            else "Not delivered: run again with --to BOX, or send the file yourself."
        )
