// Package observability reads what operators watch the plane by: the rules and dashboards of
// compose/, the runbooks, and the list of metrics in docs/operate. Its tests check that they
// agree with each other, and, with a real Prometheus, with a running plane.
//
// The tests with Prometheus need the programs prometheus and promtool: in the folder that
// GARBOARD_PROMETHEUS names, or on PATH. The script install of this folder gets them. They are
// skipped without, unless GARBOARD_REQUIRE_PROMETHEUS is 1.
package observability
