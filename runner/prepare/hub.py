"""Models from a Hugging Face hub: an explicit choice of the file, resolved to a revision when prepared.

Never run against the public hub by this project's own tests, which speak to a local stand-in.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from runner.errors import PrepareError
from runner.model import Fault, ModelRef
from runner.prepare.keys import check_room, open_to_readers, tree_hash
from runner.records import PreparedModel


def fetch(model: ModelRef, cache: Path, *, endpoint: str | None = None) -> PreparedModel:
    """Resolve the revision to a commit, download that commit's files into ``cache``, and hash them.

    ``endpoint`` is the hub's address; None: the one huggingface_hub is set up with.

    Raises:
        PrepareError: the package is missing, there is no room (disk), or the hub did not answer (network) or refused
            (pull).

    """
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        msg = f"model {model.name} names hub: {model.hub}; install beside the runner: pip install huggingface_hub"
        raise PrepareError(msg, Fault.BUILD) from error
    began = time.monotonic()
    try:
        found = HfApi(endpoint=endpoint).model_info(
            str(model.hub), revision=model.revision, files_metadata=True
        )
        commit = str(found.sha)
        target = cache / f"{re.sub('[^A-Za-z0-9_.-]+', '--', str(model.hub))}@{commit[:20]}"
        if not target.is_dir():  # a download that was cut off has taken its room already
            check_room(cache, sum(each.size or 0 for each in found.siblings or ()), f"model {model.hub}")
        snapshot_download(str(model.hub), revision=commit, local_dir=target, endpoint=endpoint)
    except HfHubHTTPError as error:
        msg_0 = f"hub refused {model.hub}: {_first_line(error)}"
        raise PrepareError(msg_0, Fault.PULL) from error
    except PrepareError:
        raise
    except Exception as error:
        # The package has changed its HTTP library twice (requests, httpx, httpx2), and the exceptions with it.
        if isinstance(error, OSError) and error.filename:
            msg_0 = f"model {model.hub}: {error.filename}: {error.strerror}"
            raise PrepareError(msg_0, Fault.DISK) from error
        msg_0 = f"hub did not answer for {model.hub}: {_first_line(error)}"
        raise PrepareError(msg_0, Fault.NETWORK) from error
    open_to_readers(target)
    return PreparedModel(
        name=model.name,
        path=str(target),
        digest=tree_hash(target, skip=(".cache",)),
        source=f"hub {model.hub}",
        revision=commit,
        seconds=round(time.monotonic() - began, 3),
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
