"""Learning methods: how a truth network learns from raters who disagree."""

from raters.learning.methods.entry import MethodEntry as MethodEntry
from raters.learning.methods.options import AggNetOptions as AggNetOptions
from raters.learning.methods.options import CrowdLayerOptions as CrowdLayerOptions
from raters.learning.methods.options import FusedOptions as FusedOptions
from raters.learning.methods.options import GlobalOptions as GlobalOptions
from raters.learning.methods.options import LowRankOptions as LowRankOptions
from raters.learning.methods.options import MaxMigOptions as MaxMigOptions
from raters.learning.methods.options import MethodOptions as MethodOptions
from raters.learning.methods.options import OracleOptions as OracleOptions
from raters.learning.methods.options import PixelOptions as PixelOptions
from raters.learning.methods.options import SingleOptions as SingleOptions
from raters.learning.methods.options import WdnOptions as WdnOptions
from raters.learning.methods.registry import METHODS as METHODS
from raters.learning.methods.registry import learning_method as learning_method
