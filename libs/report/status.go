package report

import "time"

// Status is the state of the plane as one apiserver sees it.
type Status struct {
	// Apiserver is the replica that reports, Now the time by its clock.
	Apiserver string    `json:"apiserver"`
	Now       time.Time `json:"now"`
	// Etcd are the etcd clusters, the main one first.
	Etcd []Etcd `json:"etcd"`
	// NATS is the bus.
	NATS NATS `json:"nats"`
	// Answers are the reports of the processes that could be reached over NATS, always including
	// the apiserver's own.
	Answers []Answer `json:"answers"`
	// Fault is the reason why the apiserver could not ask other processes; empty when it could.
	Fault string `json:"fault,omitempty"`
}

// Etcd is one etcd cluster.
type Etcd struct {
	// Name is "main", or the first resource that the cluster stores.
	Name string `json:"name"`
	// Fault is the reason why the cluster does not answer a linearizable read; empty when it does.
	// Seconds is how long the read took, and Revision its result.
	Fault    string  `json:"fault,omitempty"`
	Seconds  float64 `json:"seconds"`
	Revision int64   `json:"revision,omitempty"`
	// Members are all members of the cluster.
	Members []Member `json:"members,omitempty"`
	// Alarms are the members' alarms: NOSPACE or CORRUPT.
	Alarms []Alarm `json:"alarms,omitempty"`
	// Publisher is the apiserver that publishes the cluster's changes; empty if there is none.
	Publisher string `json:"publisher,omitempty"`
}

// Member is one server of an etcd cluster, as far as it could be queried.
type Member struct {
	// Endpoint is where it was queried; empty for a member that no endpoint led to.
	Endpoint string `json:"endpoint,omitempty"`
	Name     string `json:"name,omitempty"`
	ID       string `json:"id,omitempty"`
	// Fault is the reason why it does not answer.
	Fault string `json:"fault,omitempty"`
	// Version, Leader and Learner are its version and role; Leader at this moment.
	Version string `json:"version,omitempty"`
	Leader  bool   `json:"leader,omitempty"`
	Learner bool   `json:"learner,omitempty"`
	// Size is the size of the database in bytes, InUse the part in use, Quota its limit; 0 if the
	// member does not report it.
	Size  int64 `json:"size,omitempty"`
	InUse int64 `json:"inUse,omitempty"`
	Quota int64 `json:"quota,omitempty"`
	// Unapplied is how many entries of the log it has not applied yet.
	Unapplied uint64 `json:"unapplied,omitempty"`
	// Errors are the errors that it reports about itself.
	Errors []string `json:"errors,omitempty"`
	// Seconds is how long it took to answer.
	Seconds float64 `json:"seconds,omitempty"`
}

// Alarm is an alarm that a member of etcd has raised.
type Alarm struct {
	Member string `json:"member"`
	Alarm  string `json:"alarm"`
}

// NATS is the state of the bus as one apiserver sees it.
type NATS struct {
	// Fault is the reason why the bus is unusable; empty when it is usable.
	Fault string `json:"fault,omitempty"`
	// Server is the one that the apiserver is connected to, Version its version, and Servers all
	// servers of its cluster that clients know. Seconds is how long a message took to the server
	// and back.
	Server  string   `json:"server,omitempty"`
	Version string   `json:"version,omitempty"`
	Servers []string `json:"servers,omitempty"`
	Seconds float64  `json:"seconds"`
	// Open means that the bus accepts every client.
	Open bool `json:"open,omitempty"`
	// Streams are the logs of watch messages.
	Streams []Stream `json:"streams,omitempty"`
}

// Stream is a log of watch messages.
type Stream struct {
	Name string `json:"name"`
	// Fault is the reason why nothing is known of the stream.
	Fault string `json:"fault,omitempty"`
	// Leader is the server that accepts messages for it; empty if there is none, and in a single
	// server, which has no elections.
	Leader string `json:"leader,omitempty"`
	// Clustered means that a cluster stores it; Wanted is how many of its servers should.
	Clustered bool      `json:"clustered,omitempty"`
	Wanted    int       `json:"wanted,omitempty"`
	Replicas  []Replica `json:"replicas,omitempty"`
	// Messages and Bytes are what it holds, MaxBytes its limit; 0 for none.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	MaxBytes int64  `json:"maxBytes,omitempty"`
	// Last is the sequence number of the newest message, LastTime when it arrived.
	Last     uint64    `json:"last"`
	LastTime time.Time `json:"lastTime,omitzero"`
	// Consumers counts JetStream consumers; Garboard creates none.
	Consumers int `json:"consumers"`
}

// Replica is a server that stores a stream, besides its leader.
type Replica struct {
	Name string `json:"name"`
	// Current means that it holds every message, Offline that it is unreachable. Lag is how many
	// operations it is behind.
	Current bool   `json:"current"`
	Offline bool   `json:"offline,omitempty"`
	Lag     uint64 `json:"lag,omitempty"`
}
