package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	var r report
	for _, s := range []time.Duration{3, 1, 2} {
		r.add("kill etcd", s*time.Second, s*time.Millisecond, 10*s*time.Second, s != 2)
	}
	r.add("pause nats", time.Second, time.Second, time.Second, true)
	want := `| kill etcd | 3 | 2.0 s / 3.0 s | 0.0 s / 0.0 s | 20.0 s / 30.0 s | 1 |
| pause nats | 1 | 1.0 s / 1.0 s | 1.0 s / 1.0 s | 1.0 s / 1.0 s | 0 |
`
	if got := r.markdown(); !strings.HasSuffix(got, want) {
		t.Errorf("got the table\n%s", got)
	}
}
