// Package observability reads the files with which operators monitor the plane: the rules and
// dashboards of compose/, the runbooks, and the list of metrics in docs/reference. Its tests check
// that they agree with each other and, using a real Prometheus, with a running plane.
//
// The tests with Prometheus need the programs prometheus and promtool, in the folder
// GARBOARD_PROMETHEUS or on PATH. The script install in this folder downloads them. Without them
// the tests are skipped, unless GARBOARD_REQUIRE_PROMETHEUS is 1.
package observability
