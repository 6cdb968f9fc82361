"""The champion in this process: its weights on a base are loaded and deployed, and changes are followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agents.models.llamacpp.network import PREFIX as LLAMACPP
from agents.models.local.network import BASE
from agents.models.model import Model

from ..house import House
from ..sweeps.models import local_folder, local_host
from ..sweeps.plan import first_facts
from ..training.weights import base_of, folders_of
from .deployments import Deployment, deploy_champion, follow_champion
from .local_upstream import LocalChampion
from .named_models import NamedModels


@contextmanager
def open_champion(house: House, model: str, say: Callable[[str], None]) -> Iterator[LocalChampion]:
    """Serve the champion until the block ends. `model` is a base: its name or digest, or `llamacpp:FOLDER` and its kin.

    Raises NoBase, BaseMissing, LibrariesMissing, NotConverted, and what loading the champion raises, which is recorded.
    """
    if local_folder(house.settings, model) is None:
        model = f"{LLAMACPP}{base_of(house, model, None).path}"
    first_facts(house)
    with local_host(house.settings, model, folders_of(house)) as (host, files_of):

        def load(weights: str) -> Model:
            return host.base() if weights == BASE else host.adapted_model(weights, files_of)

        deployment = Deployment()
        host.must_stay = deployment.is_of  # callers of other artifacts by name do not put the champion out of memory
        deploy_champion(house, deployment, load)
        served = host.served
        tokens = {"tokenizer": served.tokenizer, "chat_template": served.chat_template}
        with follow_champion(house, deployment, load, say):
            artifacts = NamedModels(house, host.folder.digest, load)
            yield LocalChampion(deployment, tokens, host.offers.logprobs, artifacts)
