"""`list`: what comes with resnetx, by name."""

from argparse import Namespace
from pathlib import Path

from resnetx import study
from resnetx.cli.settings import choices
from resnetx.config import CONFIGS, GROUPS


def list_(_: Namespace, __: list[Path], ___: list[str]) -> int:
    """Names what comes with resnetx, and the choices in folders of the user's own."""
    for group in GROUPS:
        print(f"{group}: {', '.join(sorted(choices(group)))}")
    print("  (model=torchvision model.name=NAME: any classifier of torchvision.models)")
    print("studies:")
    for name, about in study.names().items():
        print(f"  {name:12} {about}")
    print(f"systems: {', '.join(sorted(path.stem for path in (CONFIGS / 'system').glob('*.yaml')))}")
    print("  (`resnetx topology` says what they are)")
    return 0
