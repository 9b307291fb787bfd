package bus

import (
	"encoding/json"
	"testing"
	"time"
)

// TestLogStateOfCluster decodes the state of a log in a NATS cluster in which one server is offline
// and one is behind.
func TestLogStateOfCluster(t *testing.T) {
	var info logInfo
	if err := json.Unmarshal([]byte(`{"config": {"num_replicas": 5}, "state": {"messages": 7, "bytes": 900, "first_ts": "2030-01-02T03:04:05Z"},
		"cluster": {"leader": "a", "replicas": [
			{"name": "b", "current": true}, {"name": "c", "current": false, "lag": 9}, {"name": "d", "current": true, "offline": true}, {"name": "e", "current": true}]}}`), &info); err != nil {
		t.Fatal(err)
	}
	want := LogState{Messages: 7, Bytes: 900, Oldest: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Replicas: 5, Current: 3}
	if got := info.state(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
