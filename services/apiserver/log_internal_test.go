package apiserver

import (
	"testing"
	"time"
)

func TestLogConfig(t *testing.T) {
	for _, tc := range []struct {
		name string
		give LogConfig
		want LogConfig
		bad  bool
	}{
		{name: "defaults", want: LogConfig{Replicas: 1, MaxAge: 24 * time.Hour, MaxBytes: 256 << 20}},
		{name: "set", give: LogConfig{Replicas: 3, MaxAge: time.Minute, MaxBytes: 7}, want: LogConfig{Replicas: 3, MaxAge: time.Minute, MaxBytes: 7}},
		{name: "too many replicas", give: LogConfig{Replicas: 6}, bad: true},
		{name: "less than none", give: LogConfig{Replicas: -1}, bad: true},
		{name: "too short", give: LogConfig{MaxAge: time.Millisecond}, bad: true},
		{name: "negative bytes", give: LogConfig{MaxBytes: -1}, bad: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.give
			if err := got.complete(); (err != nil) != tc.bad || !tc.bad && got != tc.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
