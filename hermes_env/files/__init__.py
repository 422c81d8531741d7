"""Files of an environment: verified writes and reads, listings, and batches that apply as a whole or not at all."""

from ._files import Files as Files
from ._files import NativeFiles as NativeFiles
from ._oserror import NotReplaceable as NotReplaceable
from ._types import Change as Change
from ._types import Expect as Expect
from ._types import FileStat as FileStat
from ._types import HardLinks as HardLinks
from ._types import MakeDir as MakeDir
from ._types import Move as Move
from ._types import Remove as Remove
from ._types import Skipped as Skipped
from ._types import Survey as Survey
from ._types import Surveyed as Surveyed
from ._types import Swept as Swept
from ._types import Symlink as Symlink
from ._types import TransferResult as TransferResult
from ._types import Write as Write
from ._types import WriteResult as WriteResult
