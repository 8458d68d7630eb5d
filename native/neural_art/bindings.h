// Neural-ART classes of the extension module.
#pragma once

#include <nanobind/nanobind.h>

void bind_neural_art(nanobind::module_ &m);
