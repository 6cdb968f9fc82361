"""`flywheel champion mirror`: the champion as an alias of a model in an MLflow registry."""

from __future__ import annotations

from threading import Event
from typing import Annotated

import typer

from .output import ERR, open_project, say

_OUTAGE_S = 86_400.0


def mirror(
    registry: Annotated[
        str, typer.Option(metavar="URL", help="The MLflow server: http(s)://HOST, without a password.")
    ],
    model: Annotated[str, typer.Option(help="The registered model; it is made where there is none.")],
    alias: Annotated[str, typer.Option(help="The alias that the champion's version gets.")] = "champion",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Mirror each later move until interrupted.")] = False,
) -> None:
    """Mirror the champion to an MLflow registry: a version for each champion there was, an alias on the present one.

    The registry keeps how far it got, and a restart goes on there. MLFLOW_TRACKING_USERNAME and
    MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, are its credentials. It needs the extra `mlflow`.
    """
    from eventlog.database import OutagePatience

    from ..locks import mirroring_alone
    from ..serving.mirror import mirror_champion, mirror_until
    from ..serving.mlflow_registry import MlflowRegistry

    with open_project(OutagePatience(_OUTAGE_S) if follow else None) as house:
        asked = MlflowRegistry(registry, model, alias, house.settings.project)
        if follow:
            mirror_until(house, asked, lambda text: ERR.print(text, markup=False, soft_wrap=True), Event())
        else:
            with mirroring_alone(house.engine, asked.whole):
                mirror_champion(house, asked, say)
            say(f"{asked.place} is up to date")
