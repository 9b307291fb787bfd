package bus

import (
	"context"
	"fmt"
	"time"
)

// LogState is the present state of a log.
type LogState struct {
	// Messages and Bytes are what the log holds.
	Messages, Bytes uint64
	// Oldest is when the log stored its oldest message; zero for an empty log.
	Oldest time.Time
	// Replicas is how many servers should hold the log, and Current how many hold all of it. Both
	// are 1 for a server without a cluster.
	Replicas, Current int
}

// State returns the state of the log; ErrNone if there is no log, ErrNoLog if JetStream is down.
func (r *LogReader) State(ctx context.Context) (LogState, error) {
	what := "reading the state of the log " + r.stream
	var answer logInfo
	if err := r.request(ctx, "STREAM.INFO", nil, &answer); err != nil {
		return LogState{}, wrap(what, err)
	}
	if err := answer.err(); err != nil {
		return LogState{}, fmt.Errorf("%s: %w", what, err)
	}
	return answer.state(), nil
}

// logInfo is the part of JetStream's answer that State uses.
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
		Replicas: max(i.Config.Replicas, 1), Current: 1, // the responding server holds it
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
