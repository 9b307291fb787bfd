package bus

import (
	"context"
	"fmt"
	"time"
)

// LogState is how a log is at present.
type LogState struct {
	// Messages and Bytes are what it holds.
	Messages, Bytes uint64
	// Oldest is when it took its oldest message; zero for an empty one.
	Oldest time.Time
	// Replicas is how many servers are to hold it, Current how many hold all of it; both are 1
	// for a server without a cluster.
	Replicas, Current int
}

// State says how the log is; ErrNone if there is none, ErrNoLog if JetStream is down.
func (r *LogReader) State(ctx context.Context) (LogState, error) {
	what := "reading how the log " + r.stream + " is"
	var answer logInfo
	if err := r.request(ctx, "STREAM.INFO", nil, &answer); err != nil {
		return LogState{}, wrap(what, err)
	}
	if err := answer.err(); err != nil {
		return LogState{}, fmt.Errorf("%s: %w", what, err)
	}
	return answer.state(), nil
}

// logInfo is JetStream's answer, as far as it is used.
type logInfo struct {
	logError
	Config struct {
		Replicas int `json:"num_replicas"`
	} `json:"config"`
	State struct {
		Messages uint64    `json:"messages"`
		Bytes    uint64    `json:"bytes"`
		Oldest   time.Time `json:"first_ts"`
	} `json:"state"`
	Cluster *struct {
		Replicas []struct {
			Current bool `json:"current"`
			Offline bool `json:"offline"`
		} `json:"replicas"`
	} `json:"cluster"`
}

func (i logInfo) state() LogState {
	state := LogState{
		Messages: i.State.Messages, Bytes: i.State.Bytes, Oldest: i.State.Oldest,
		Replicas: max(i.Config.Replicas, 1), Current: 1, // who answers holds it
	}
	if state.Messages == 0 {
		state.Oldest = time.Time{}
	}
	if i.Cluster != nil {
		for _, replica := range i.Cluster.Replicas {
			if replica.Current && !replica.Offline {
				state.Current++
			}
		}
	}
	return state
}
