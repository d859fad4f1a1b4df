"""Every captured series of vLLM against numbers that were worked out without this program."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from engine_pages import DATA, Shot, counted, page, settings, ticks, total, vllm, vllm_names

from monitor.engines.reader import PageReader
from monitor.health.figures import load, positions
from monitor.health.ledger import add
from monitor.model import Counts, Engine, Evidence, Speculation, Verdict, Window


class Expected(NamedTuple):
    """Differences of two pages, by awk; None where a quotient does not exist."""

    run: str
    first: str
    last: str
    drafts: int
    draft_tokens: int
    accepted: int
    generated: int
    rate: float | None
    length: float | None
    by_position: tuple[float, ...]
    tokens_per_step: float | None
    step: float | None
    tpot: float | None


def _plain(run: str, first: str, last: str, generated: int, tpot: float) -> Expected:
    return Expected(run, first, last, 0, 0, 0, generated, None, None, (), 1.0, tpot, tpot)


# fmt: off
SERIES = [
    _plain("01-baseline", "c01-0start", "c01-2end", 2016, 0.007842),
    _plain("01-baseline", "c01-2end", "c04-2end", 5376, 0.011756),
    _plain("01-baseline", "c04-2end", "c16-2end", 10752, 0.023352),
    _plain("01-baseline", "series-00", "series-11", 17784, 0.010405),
    _plain("22-v092-V1-base", "00", "01", 1068, 0.009004),
    Expected("02-ngram", "c01-0start", "c01-2end", 41, 161, 77, 192, .4783, 2.8780,
             (.6341, .4878, .4146, .3415), 1.6239, .190935, .117576),
    Expected("02-ngram", "c01-2end", "c04-2end", 124, 486, 269, 576, .5535, 3.1694,
             (.6613, .5806, .4919, .4355), 1.8387, .220135, .119723),
    Expected("02-ngram", "c04-2end", "c16-2end", 660, 2538, 1472, 2976, .5800, 3.2303,
             (.7621, .5667, .4894, .4121), 1.9223, .234067, .121763),
    Expected("02-ngram", "series-00", "series-11", 900, 3486, 2315, 4326, .6641, 3.5722,
             (.7833, .6811, .5856, .5222), 2.1199, .105570, .049800),
    Expected("14-ngram-1thr", "c01-0start", "c01-2end", 517, 2017, 1315, 2688, .6520, 3.5435,
             (.7814, .6750, .5803, .5068), 1.9261, .009587, .004977),
    Expected("14-ngram-1thr", "c01-2end", "c04-2end", 1667, 6487, 4158, 7680, .6410, 3.4943,
             (.7672, .6467, .5705, .5099), 2.1271, .014631, .006878),
    Expected("14-ngram-1thr", "c04-2end", "c16-2end", 3529, 13711, 8790, 16608, .6411, 3.4908,
             (.7750, .6410, .5684, .5064), 2.0673, .026607, .012870),
    Expected("14-ngram-1thr", "series-00", "series-05", 2154, 8412, 5318, 9901, .6322, 3.4689,
             (.7734, .6402, .5562, .4991), 2.1167, .018171, .008585),
    Expected("03-draftgood", "c01-0start", "c01-2end", 985, 3940, 2182, 3168, .5538, 3.2152,
             (.7411, .6162, .4782, .3797), 3.1827, .014860, .004669),
    Expected("03-draftgood", "c01-2end", "c04-2end", 2461, 9844, 4673, 7104, .4747, 2.8988,
             (.7135, .4917, .3864, .3072), 2.8566, .023539, .008240),
    Expected("03-draftgood", "c04-2end", "c16-2end", 6479, 25916, 11953, 18336, .4612, 2.8449,
             (.6745, .4924, .3764, .3016), 2.8006, .035750, .012765),
    Expected("03-draftgood", "series-00", "series-11", 8287, 33148, 15355, 23539, .4632, 2.8529,
             (.6829, .4777, .3806, .3117), 2.8109, .023522, .008368),
    Expected("04-draftbad", "c01-0start", "c01-2end", 1033, 4132, 12, 1056, .0029, 1.0116,
             (.0048, .0039, .0029, .0000), 1.0116, .016102, .015917),
    Expected("04-draftbad", "c01-2end", "c04-2end", 2635, 10540, 25, 2688, .0024, 1.0095,
             (.0049, .0027, .0015, .0004), 1.0095, .024798, .024565),
    Expected("04-draftbad", "c04-2end", "c16-2end", 7381, 29524, 616, 8064, .0209, 1.0835,
             (.0230, .0213, .0203, .0188), 1.0812, .036609, .033861),
    Expected("04-draftbad", "series-00", "series-11", 9965, 39860, 641, 10698, .0161, 1.0643,
             (.0177, .0160, .0156, .0152), 1.0626, .016124, .015174),
    Expected("05-restart", "00", "06", 5741, 22964, 11848, 17494, .5159, 3.0638,
             (.7532, .5419, .4262, .3424), 3.0157, .020062, .006653),
    Expected("05-restart", "09", "13", 3170, 12680, 5977, 9121, .4714, 2.8855,
             (.7114, .4924, .3716, .3101), 2.8479, .023256, .008166),
    Expected("07-dynamic", "00", "03", 1250, 5000, 2164, 3392, .4328, 2.7312,
             (.6112, .4744, .3672, .2784), 2.6856, .022240, .008281),
    Expected("07-dynamic", "04", "07", 18, 72, 36, 7605, .5000, 3.0000,
             (.7778, .4444, .3889, .3889), 1.0048, .022190, .022084),
    Expected("07-dynamic", "08", "11", 1239, 4956, 2228, 3442, .4496, 2.7982,
             (.6885, .4576, .3648, .2873), 2.7490, .022420, .008156),
    Expected("09-dp2", "00", "03", 89, 351, 264, 456, .7521, 3.9663,
             (.8427, .7640, .7079, .6517), 2.3368, .382791, .163811),
    Expected("10-api2", "00", "03", 454, 1763, 1073, 2035, .6086, 3.3634,
             (.7357, .6278, .5352, .4648), 2.0849, .056701, .027196),
    Expected("11-struct", "0", "1", 1069, 4248, 3807, 5856, .8962, 4.5613,
             (.9504, .8999, .8681, .8428), 2.7530, .013031, .004733),
    Expected("12-preempt", "0", "2", 732, 2916, 1694, 3000, .5809, 3.3142,
             (.7609, .6503, .5041, .3989), 2.2844, .141190, .061806),
    Expected("17-edge", "1", "2", 40, 160, 0, 40, .0, 1.0, (.0, .0, .0, .0), None, None, None),
    Expected("17-edge", "2", "3", 53, 212, 92, 120, .4340, 2.7358,
             (.6226, .4528, .3585, .3019), 1.5094, .019715, .013061),
]
# fmt: on


def _id(row: Expected) -> str:
    return f"{row.run}:{row.first}..{row.last}"


def _between(row: Expected) -> list[Shot]:
    shots = vllm(vllm_names(row.run))
    names = [shot.name.removeprefix(f"{row.run}-").removesuffix(".prom") for shot in shots]
    return shots[names.index(row.first) : names.index(row.last) + 1]


def _close(actual: float | None, expected: float | None, digits: int) -> bool:
    if actual is None or expected is None:
        return actual is expected
    return abs(actual - expected) <= 0.501 * 10.0**-digits


def _check(counts: Counts, row: Expected) -> None:
    assert counts.drafts == row.drafts
    assert counts.draft_tokens == row.draft_tokens
    assert counts.accepted_tokens == row.accepted
    assert counts.output_tokens == row.generated
    rate = counts.accepted_tokens / counts.draft_tokens if counts.draft_tokens else None
    length = 1.0 + counts.accepted_tokens / counts.drafts if counts.drafts else None
    assert _close(rate, row.rate, 4)
    assert _close(length, row.length, 4)
    table = positions(counts)
    assert len(table) == len(row.by_position)
    for position, expected in zip(table, row.by_position, strict=True):
        assert _close(position.rate, expected, 4)
    carried = load(Window(0.0, 1.0, counts))
    assert _close(carried.tpot, row.tpot, 6)
    assert _close(carried.step, row.step, 6)
    if row.tokens_per_step is not None:
        assert _close(carried.tokens_per_step, row.tokens_per_step, 4)


@pytest.mark.parametrize("row", SERIES, ids=_id)
def test_two_pages_give_the_independent_numbers(row: Expected) -> None:
    shots = _between(row)
    _check(total([shots[0], shots[-1]]), row)


@pytest.mark.parametrize("row", SERIES, ids=_id)
def test_all_pages_between_add_up_to_the_same(row: Expected) -> None:
    _check(total(_between(row)), row)


@pytest.mark.parametrize("row", [r for r in SERIES if r.drafts and r.run != "05-restart"], ids=_id)
def test_the_assessment_shows_the_figures_of_its_window(row: Expected) -> None:
    shots = _between(row)
    ends = [shots[0], shots[-1]]
    answer = ticks(ends, settings(ends[1].at - ends[0].at))[-1].assessment
    assert answer.window is not None
    assert answer.window.counts.draft_tokens == row.draft_tokens
    if answer.verdict is Verdict.NOT_DRAFTING:
        assert row.run == "07-dynamic"
        assert row.first == "04"
        return
    assert answer.evidence is Evidence.COUNTER
    assert answer.acceptance_rate is not None
    assert _close(answer.acceptance_rate.value, row.rate, 4)
    assert answer.acceptance_length is not None
    assert _close(answer.acceptance_length.value, row.length, 4)


def test_the_model_and_the_number_of_draft_tokens_are_read_off_the_page() -> None:
    sample = PageReader().read(page("vllm/03-draftgood-series-05.prom"), 0.0)
    assert sample.identity.engine is Engine.VLLM
    assert sample.identity.model == "tiny-py-llama"
    assert sample.identity.draft_size == 4


def test_a_restart_is_counted_once_and_nothing_of_the_time_before_is_lost() -> None:
    shots = vllm(vllm_names("05-restart"))
    increments = [i for tick in ticks(shots, settings(5.0)) for i in tick.increments]
    assert [i.end for i in increments if i.counts.resets] == [
        shot.at for shot in shots if shot.name.endswith("-08.prom")
    ]
    counts = Counts()
    for increment in increments:
        counts = add(counts, increment.counts)
    last = PageReader().read(shots[-1].metrics, 0.0).readings[0].counters
    assert counts.drafts == 5741 + last["drafts"]
    assert counts.accepted_tokens == 11848 + last["accepted_tokens"]


def test_both_engines_of_a_data_parallel_server_are_told_apart() -> None:
    parts = counted(vllm(vllm_names("09-dp2")))
    assert sorted(parts) == ["0", "1"]
    assert all(counts.drafts > 0 for counts in parts.values())
    assert sum(counts.drafts for counts in parts.values()) == 89


def test_a_page_of_several_api_processes_tells_no_time_of_birth() -> None:
    for shot in vllm(vllm_names("10-api2")):
        readings = PageReader().read(shot.metrics, shot.at).readings
        assert [reading.birth for reading in readings] == [None]


def test_the_time_of_birth_is_the_same_on_every_page_of_a_process() -> None:
    reader = PageReader()
    births = {
        reader.read(shot.metrics, shot.at).readings[0].birth
        for shot in vllm(vllm_names("03-draftgood"))
    }
    assert len(births) == 1


def test_the_scheduled_bypass_is_seen_and_shows_no_acceptance() -> None:
    shots = [shot for shot in vllm(vllm_names("07-dynamic")) if shot.name[11:13] in {"04", "05"}]
    answer = ticks(shots, settings(5.0))[-1].assessment
    assert answer.verdict is Verdict.NOT_DRAFTING
    assert answer.acceptance_rate is None
    assert answer.acceptance_length is None


def test_a_page_without_log_stats_is_not_taken_for_a_server_without_speculation() -> None:
    [shot] = vllm(["13-nologstats"])
    sample = PageReader().read(shot.metrics, shot.at)
    assert sample.identity.engine is None
    assert sample.readings == []
    assert ticks([shot], settings())[0].assessment.verdict is Verdict.UNRECOGNISED


def test_an_engine_that_is_told_does_not_make_a_page_without_its_names_idle() -> None:
    [shot] = vllm(["13-nologstats"])
    assert PageReader(Engine.VLLM).read(shot.metrics, shot.at).identity.engine is None


def test_prompts_found_in_the_cache_count_as_drafts_that_were_rejected() -> None:
    """A known bias of the engine: 40 padded drafts, no decode step; so coverage is undefined."""
    shots = vllm(["17-edge-1", "17-edge-2"])
    counts = total(shots)
    assert (counts.drafts, counts.decode_steps) == (40.0, 0.0)
    assert load(Window(0.0, 1.0, counts)).coverage is None


# -- the V0 engine ---------------------------------------------------------------------------

V0 = ("draft-00", "draft-01", "draft-02", "draft-03", "draft-04", "draft-05", "draft-idle")


def _v0(*names: str) -> list[Shot]:
    return vllm([f"20-v092-V0-{name}" for name in names])


def _true_totals() -> list[tuple[int, int, int]]:
    """Accepted (by V0's own way of counting), draft and emitted tokens, as V0 logged them.

    The counters on a page are running sums of these.
    """
    return [
        (2, 4, 3),
        (1864, 2392, 1961),
        (3487, 4764, 3577),
        (5276, 7148, 5356),
        (6615, 8808, 6761),
        (7929, 11040, 8138),
        (9749, 13612, 9926),
    ]


@pytest.mark.parametrize("page_number", range(1, len(V0)))
def test_v0_pages_one_update_apart_give_the_exact_window(page_number: int) -> None:
    shots = _v0(*V0[: page_number + 1])
    (_, tokens_before, emitted_before), (_, tokens, emitted) = _true_totals()[
        page_number - 1 : page_number + 1
    ]
    increment = ticks(shots, settings(30.0))[-1].increments[0].counts
    drafts = (tokens - tokens_before) / 4.0
    assert increment.drafts == drafts
    assert increment.draft_tokens == tokens - tokens_before
    assert increment.output_tokens == emitted - emitted_before
    assert increment.accepted_tokens == emitted - emitted_before - drafts


@pytest.mark.parametrize(
    "names",
    [V0[::2], V0[::3], (V0[0], V0[-1]), (V0[1], V0[4], V0[6]), (V0[2], V0[5])],
    ids=" ".join,
)
def test_v0_pages_further_apart_give_a_note_and_never_a_number(names: tuple[str, ...]) -> None:
    for tick in ticks(_v0(*names), settings(30.0))[1:]:
        assert tick.assessment.acceptance_rate is None
        assert tick.assessment.acceptance_length is None
        assert tick.assessment.verdict in (Verdict.INSUFFICIENT, Verdict.IDLE)
        assert any("V0 engine" in note for note in tick.assessment.notes)
        for increment in tick.increments:
            assert increment.counts.drafts == 0.0
            assert increment.counts.draft_tokens == 0.0
            assert increment.counts.accepted_tokens == 0.0


def test_v0_after_a_page_too_late_the_next_ones_count_again() -> None:
    shots = _v0("draft-00", "draft-01", "draft-03", "draft-04", "draft-05")
    increments = [tick.increments for tick in ticks(shots, settings(30.0))]
    # Page 03 is two updates after 01, so its total is unknown and the group waits for 04.
    assert increments[2][0].counts.drafts == 0.0
    assert increments[3][0].counts.draft_tokens == 8808 - 2392
    assert increments[4][0].counts.draft_tokens == 11040 - 8808


def test_v0_a_rate_that_never_changes_does_not_hide_a_second_update() -> None:
    """With a dead drafter the gauge is 0 whatever the counters say; the step counter tells."""

    def shown(accepted: int, tokens: int, emitted: int, steps: int) -> bytes:
        return (
            f"vllm:spec_decode_draft_acceptance_rate 0.0\n"
            f"vllm:spec_decode_efficiency 0.2\n"
            f"vllm:spec_decode_num_accepted_tokens_total {accepted}\n"
            f"vllm:spec_decode_num_draft_tokens_total {tokens}\n"
            f"vllm:spec_decode_num_emitted_tokens_total {emitted}\n"
            f"vllm:generation_tokens_total {steps}\n"
        ).encode()

    reader = PageReader(Engine.VLLM)
    assert "drafts" in reader.read(shown(0, 4000, 1000, 1010), 0.0).readings[0].counters
    # One update later: the total is 2,000 drafts.
    one = reader.read(shown(0, 12_000, 3000, 2020), 5.0).readings[0].counters
    assert one["drafts"] == 2000.0
    # Two updates later: 3,000 and 4,000 have been added.
    two = reader.read(shown(0, 40_000, 10_000, 4040), 15.0).readings[0].counters
    assert "drafts" not in two


def test_v0_names_without_samples_do_not_mean_speculation() -> None:
    shots = vllm(["21-v092-V0-base-cold", "21-v092-V0-base-01"])
    reader = PageReader()
    assert reader.read(shots[0].metrics, shots[0].at).identity.engine is Engine.VLLM
    [reading] = reader.read(shots[1].metrics, shots[1].at).readings
    assert reading.speculation is Speculation.ABSENT
    later = Shot("later", shots[1].at + 5.0, shots[1].metrics)
    answer = ticks([*shots, later], settings(5.0))[-1].assessment
    assert answer.verdict is Verdict.OFF


def test_v0_a_damaged_line_is_no_traceback() -> None:
    whole = page("vllm/20-v092-V0-draft-02.prom")
    for part in (b"draft_acceptance_rate", b"efficiency", b"num_emitted_tokens_total"):
        lines = [
            line for line in whole.split(b"\n") if not line.startswith(b"vllm:spec_decode_" + part)
        ]
        [reading] = PageReader().read(b"\n".join(lines), 0.0).readings
        assert "drafts" not in reading.counters
        assert reading.speculation is Speculation.CONFIGURED


def test_the_pages_and_their_times_belong_together() -> None:
    times = json.loads((DATA / "vllm" / "times.json").read_text())
    assert {path.name.removesuffix(".gz") for path in (DATA / "vllm").glob("*.gz")} == set(times)
