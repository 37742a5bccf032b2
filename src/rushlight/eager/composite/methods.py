"""Functions of this package that are methods of tensors too."""

from __future__ import annotations

from rushlight.eager.composite import (
    analysis,
    facts,
    low_rank,
    numbers,
    places,
    quantiles,
    sequences,
    spectra,
    statistics,
    structure,
)
from rushlight.eager.methods import GeneratedMethods


class CompositeMethods(GeneratedMethods):
    """Methods that are short programs of operators."""

    __slots__ = ()

    diag, diag_embed, diagflat, trace = structure.diag, structure.diag_embed, structure.diagflat, structure.trace
    fill_diagonal_, sum_to_size = structure.fill_diagonal_, structure.sum_to_size
    fliplr, flipud, rot90 = structure.fliplr, structure.flipud, structure.rot90
    narrow_copy = structure.narrow_copy
    tensor_split, split_with_sizes = structure.tensor_split, structure.split_with_sizes
    hsplit, vsplit, dsplit = structure.hsplit, structure.vsplit, structure.dsplit
    unsafe_chunk, unsafe_split = structure.unsafe_chunk, structure.unsafe_split
    unsafe_split_with_sizes = structure.unsafe_split_with_sizes

    index, nonzero_static = places.index, places.nonzero_static
    index_copy, index_copy_ = places.index_copy, places.index_copy_
    index_fill, index_fill_ = places.index_fill, places.index_fill_
    index_reduce, index_reduce_ = places.index_reduce, places.index_reduce_
    masked_scatter, masked_scatter_ = places.masked_scatter, places.masked_scatter_
    scatter, scatter_ = places.scatter, places.scatter_
    put, put_, take = places.put, places.put_, places.take

    unique_consecutive = places.unique_consecutive

    equal, is_inference, is_distributed = facts.equal, facts.is_inference, facts.is_distributed
    get_device, is_nonzero, is_same_size = facts.get_device, facts.is_nonzero, facts.is_same_size
    is_signed, is_conj, is_neg = facts.is_signed, facts.is_conj, facts.is_neg
    resolve_conj, resolve_neg = facts.resolve_conj, facts.resolve_neg

    frexp, ldexp, ldexp_, mode = numbers.frexp, numbers.ldexp, numbers.ldexp_, numbers.mode
    deg2rad, deg2rad_, rad2deg, rad2deg_ = numbers.deg2rad, numbers.deg2rad_, numbers.rad2deg, numbers.rad2deg_
    conj_physical, conj_physical_, isreal = numbers.conj_physical, numbers.conj_physical_, numbers.isreal
    positive, float_power_ = numbers.positive, numbers.float_power_

    histogram, new_empty_strided = analysis.histogram, sequences.new_empty_strided
    quantile, nanquantile = quantiles.quantile, quantiles.nanquantile
    aminmax, diff, histc = statistics.aminmax, statistics.diff, statistics.histc
    nanmean, nanmedian, nansum = statistics.nanmean, statistics.nanmedian, statistics.nansum
    norm, renorm, renorm_ = statistics.norm, statistics.renorm, statistics.renorm_

    stft, istft = spectra.stft, spectra.istft
    lu, ger, adjoint = low_rank.lu, low_rank.ger, low_rank.adjoint
    mH, H = property(low_rank.adjoint), property(low_rank.conjugate_transpose)
