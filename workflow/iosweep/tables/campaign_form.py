"""What campaign.json has to hold: merge writes it, and all that reads the tables takes its values as they are."""

from __future__ import annotations

from msgspec import field

from iosweep.files.documents import Count, Integer, Moment, Part
from iosweep.plan.model import ConfigurationFile, PlanFacts
from iosweep.store.campaign_documents import Build
from iosweep.store.ingested import IngestedFacts


class Job(Part, frozen=True, kw_only=True):
    """A Slurm job that measured."""

    job: str
    launcher: str
    hosts: tuple[str, ...]
    node_counts: tuple[Count, ...]
    points: Count
    repetitions: Count
    started: Moment
    ended: Moment


class Table(Part, frozen=True):
    """A file that merge wrote."""

    bytes: Count
    sha256: str


class Target(Part, frozen=True):
    """The directory that was measured."""

    directory: str


class CampaignForm(PlanFacts, frozen=True, kw_only=True):
    """campaign.json. `made`: when; `results_of_nodes`: key of a node's facts -> its rows."""

    campaign: str
    made: Moment
    iosweep_version: str
    plan_digest: str
    seed: Integer
    target: Target
    configuration: tuple[ConfigurationFile, ...]
    jobs: tuple[Job, ...]
    results_of_nodes: dict[str, Count]
    results_on_target: bool = False
    builds: dict[str, Build]
    tables: dict[str, Table]
    damaged: dict[str, str] = field(default_factory=dict)
    ingested: IngestedFacts | None = None  # others measured it: there is no plan, and `target` and `seed` say nothing
