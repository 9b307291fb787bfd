package config

import (
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	for _, tc := range []struct {
		name string
		give Log
		want Log
		bad  bool
	}{
		{name: "defaults", want: Log{Replicas: 1, MaxAge: 24 * time.Hour, MaxBytes: 256 << 20}},
		{name: "set", give: Log{Replicas: 3, MaxAge: time.Minute, MaxBytes: 7}, want: Log{Replicas: 3, MaxAge: time.Minute, MaxBytes: 7}},
		{name: "too many replicas", give: Log{Replicas: 6}, bad: true},
		{name: "less than none", give: Log{Replicas: -1}, bad: true},
		{name: "too short", give: Log{MaxAge: time.Millisecond}, bad: true},
		{name: "negative bytes", give: Log{MaxBytes: -1}, bad: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.give
			if err := got.complete(); (err != nil) != tc.bad || !tc.bad && got != tc.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
