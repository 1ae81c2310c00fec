"""Other tools: what they get is what was learned, and what comes back is the same."""

import numpy as np
import pytest

from multicause import GSC, LinCA, UPoE
from multicause.datasets import make_bars

CHANNELS = ["Fp1", "Fp2", "C3", "C4", "O1", "O2"]
WHY = "is not installed: what is handed to it is not tried"


@pytest.fixture
def recording():
    """Six channels of six sources, four of them heavy-tailed, as a Raw of MNE, in volts."""
    mne = pytest.importorskip("mne", reason=f"MNE {WHY}")
    rng = np.random.default_rng(1000)
    sources = np.column_stack([rng.laplace(size=(4000, 4)), rng.normal(size=(4000, 2))])
    samples = 1e-5 * sources @ rng.normal(size=(6, 6)) + 2e-6
    info = mne.create_info(CHANNELS, 250.0, "eeg")
    raw = mne.io.RawArray(samples.T, info.copy(), verbose="error")
    return raw.set_montage("standard_1020", verbose="error")


@pytest.mark.parametrize("n_components", [2, 4])
def test_an_ica_of_mne_has_the_sources_and_the_mixing_of_the_estimator(recording, n_components):
    from multicause.interop.mne import to_mne

    X = recording.get_data().T
    upoe = UPoE(n_components, random_state=0).fit(X)
    ica = to_mne(upoe, recording.info)
    sources = ica.get_sources(recording).get_data().T
    np.testing.assert_allclose(sources[:, :n_components], upoe.transform(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ica.get_components()[:, :n_components], upoe.mixing_, rtol=1e-6, atol=1e-12)
    assert ica.labels_ == {"gaussian": list(range(n_components, 6))}


def test_mne_takes_a_source_out_as_the_estimator_would(recording):
    from multicause.interop.mne import to_mne

    X = recording.get_data().T
    upoe = UPoE(4, random_state=0).fit(X)
    cleaned = to_mne(upoe, recording.info).apply(recording.copy(), exclude=[1], verbose="error").get_data().T
    np.testing.assert_allclose(cleaned, X - np.outer(upoe.transform(X)[:, 1], upoe.mixing_[:, 1]), atol=1e-14)


def test_mne_finds_the_source_of_a_channel_and_plots_and_saves_it(recording, tmp_path):
    import matplotlib.pyplot as plt
    import mne

    from multicause.interop.mne import to_mne

    upoe = UPoE(4, random_state=0).fit(recording.get_data().T)
    ica = to_mne(upoe, recording.info)
    eyes, scores = ica.find_bads_eog(recording, ch_name="Fp1", measure="correlation", threshold=0.5, verbose="error")
    assert int(np.argmax(np.abs(scores))) in eyes
    assert ica.plot_components(show=False)
    plt.close("all")
    ica.save(tmp_path / "sources-ica.fif", verbose="error")
    again = mne.preprocessing.read_ica(tmp_path / "sources-ica.fif", verbose="error")
    np.testing.assert_allclose(again.get_components(), ica.get_components())


def test_there_and_back_is_the_same_model(recording):
    from multicause.interop.mne import from_mne, to_mne

    X = recording.get_data().T
    upoe = UPoE(4, random_state=0).fit(X)
    again = from_mne(to_mne(upoe, recording.info), recording)
    np.testing.assert_allclose(again.transform(X), upoe.transform(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(again.mixing_, upoe.mixing_, rtol=1e-5, atol=1e-10)
    assert again.score(X) == pytest.approx(upoe.score(X), abs=1e-3)


def test_an_ica_that_mne_fitted_becomes_an_estimator(recording):
    import mne

    from multicause.interop.mne import from_mne

    ica = mne.preprocessing.ICA(n_components=6, random_state=0, verbose="error").fit(recording, verbose="error")
    upoe = from_mne(ica, recording)
    X = recording.get_data().T
    theirs = ica.get_sources(recording).get_data().T
    agreement = [abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(theirs.T, upoe.transform(X).T, strict=True)]
    assert min(agreement) > 0.999999
    assert np.isfinite(upoe.score(X))


def test_an_info_of_other_channels_is_refused(recording):
    from multicause.interop.mne import to_mne

    upoe = UPoE(2, random_state=0).fit(recording.get_data()[:4].T)
    with pytest.raises(ValueError, match="must be of the 4 channels that UPoE was fitted to, got one of 6"):
        to_mne(upoe, recording.info)


def test_known_directions_get_densities_and_are_refused_with_the_wrong_width():
    rng = np.random.default_rng(1000)
    X = rng.laplace(size=(2000, 3)) @ rng.normal(size=(3, 3))
    fitted = UPoE(random_state=0).fit(X)
    again = UPoE().fit_experts(-2.0 * fitted.components_, X)
    np.testing.assert_allclose(again.components_, fitted.components_, rtol=1e-6)
    assert again.score(X) == pytest.approx(fitted.score(X), abs=1e-3)
    with pytest.raises(ValueError, match="a column for each of the 3 features"):
        UPoE().fit_experts(np.eye(2), X)


def test_anndata_keeps_latents_beside_cells_and_components_beside_genes():
    anndata = pytest.importorskip("anndata", reason=f"anndata {WHY}")
    from multicause.interop.anndata import fit_anndata

    adata = anndata.AnnData(make_bars(80, 3, random_state=1000).X)
    adata.var_names = [f"gene{d}" for d in range(9)]
    model = fit_anndata(LinCA(4, max_iter=3, tol=1e3, random_state=0), adata)
    np.testing.assert_array_equal(adata.obsm["X_linca"], model.transform(adata.X))
    np.testing.assert_array_equal(adata.varm["linca"], model.components_.T)
    assert list(model.feature_names_in_) == list(adata.var_names)


def test_xarray_keeps_its_coordinates():
    xarray = pytest.importorskip("xarray", reason=f"xarray {WHY}")
    from multicause.interop.xarray import as_table, transform_xarray

    X = make_bars(50, 3, random_state=1000).X.reshape(50, 3, 3)
    data = xarray.DataArray(X.transpose(1, 0, 2), dims=("y", "time", "x"), coords={"time": np.arange(50) / 10})
    gsc = GSC(4, max_iter=3, tol=1e3, random_state=0).fit(as_table(data, "time"))
    codes = transform_xarray(gsc, data, "time")
    assert codes.dims == ("time", "component")
    np.testing.assert_array_equal(codes.coords["time"], data.coords["time"])
    np.testing.assert_array_equal(codes.values, gsc.transform(X.reshape(50, 9)))
    with pytest.raises(ValueError, match="sample_dim must be one of"):
        as_table(data, "trial")
