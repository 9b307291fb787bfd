package main

import "testing"

func TestScope(t *testing.T) {
	for expression, want := range map[string]string{
		`up == 0`:                                          `up{n="x"} == 0`,
		`absent(up{job="a"} == 1)`:                         `absent(up{n="x",job="a"} == 1)`,
		`up{}`:                                             `up{n="x"}`,
		`up {job=~"a|b"}`:                                  `up {n="x",job=~"a|b"}`,
		`rate(a:b_total[5m])`:                              `rate(a:b_total{n="x"}[5m])`,
		`rate(a{b="}"}[$__interval])`:                      `rate(a{n="x",b="}"}[$__interval])`,
		`sum by (job, up) (up)`:                            `sum by (job, up) (up{n="x"})`,
		`sum(up) by(job)`:                                  `sum(up{n="x"}) by(job)`,
		`a * on (job) group_left (node) b`:                 `a{n="x"} * on (job) group_left (node) b{n="x"}`,
		`a / ignoring(b) group_left c`:                     `a{n="x"} / ignoring(b) group_left c{n="x"}`,
		"(sum(a) or vector(0))\n/ sum(b)":                  "(sum(a{n=\"x\"}) or vector(0))\n/ sum(b{n=\"x\"})",
		`time() - a > 7 * 24 * 3600`:                       `time() - a{n="x"} > 7 * 24 * 3600`,
		`count(a{b="\"c"} == bool 0) > 1e3`:                `count(a{n="x",b="\"c"} == bool 0) > 1e3`,
		`label_replace(up, "a", "$1", "job", "(.*) up")`:   `label_replace(up{n="x"}, "a", "$1", "job", "(.*) up")`,
		`histogram_quantile(0.99, sum by (le) (a_bucket))`: `histogram_quantile(0.99, sum by (le) (a_bucket{n="x"}))`,
		`max_over_time(a[5m:1m] offset 1w) unless Inf < b`: `max_over_time(a{n="x"}[5m:1m] offset 1w) unless Inf < b{n="x"}`,
		`vector(0)`:                                        `vector(0)`,
	} {
		if got := scope(expression, `n="x"`); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", expression, got, want)
		}
	}
}
