"""Great Expectations writes values into its pages as they are: a value of a source must not become markup."""

from __future__ import annotations

import great_expectations as gx
import pandas as pd
import pytest
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer

from changeledger.audit.data_docs import PageView

EVIL = "<img src=x onerror=alert(1)>"


@pytest.mark.filterwarnings("ignore")
def test_no_value_and_no_name_of_a_source_is_markup() -> None:
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("source").add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(
        {"dataframe": pd.DataFrame({EVIL: [EVIL, "b"], "key": [1, EVIL]})}
    )
    suite = gx.ExpectationSuite(
        name="rows",
        expectations=[
            gx.expectations.ExpectColumnValuesToBeNull(column=EVIL, description=EVIL),
            # Its observed values are a list.
            gx.expectations.ExpectColumnMostCommonValueToBeInSet(column=EVIL, value_set=["c"]),
            # It raises an error, whose traceback has the column's name.
            gx.expectations.ExpectColumnMeanToBeBetween(column=EVIL, min_value=1),
        ],
    )
    shown = {"result_format": "COMPLETE", "unexpected_index_column_names": ["key"]}
    page = PageView().render(
        ValidationResultsPageRenderer().render(batch.validate(suite, result_format=shown))
    )
    assert "<img src=x" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 5
    assert "&amp;lt;" not in page
