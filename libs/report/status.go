package report

import "time"

// Status is how the plane is, as one apiserver sees it.
type Status struct {
	// Apiserver is the replica that says so, Now its clock.
	Apiserver string    `json:"apiserver"`
	Now       time.Time `json:"now"`
	// Etcd are the etcd clusters, the main one first.
	Etcd []Etcd `json:"etcd"`
	// NATS is the bus.
	NATS NATS `json:"nats"`
	// Answers are what the processes said that could be reached over NATS, the apiserver itself
	// among them in any case.
	Answers []Answer `json:"answers"`
	// Fault says why others could not be asked; empty when they could.
	Fault string `json:"fault,omitempty"`
}

// Etcd is one etcd cluster.
type Etcd struct {
	// Name is "main" or the first resource that the cluster is for.
	Name string `json:"name"`
	// Fault says why the cluster does not answer a linearizable read; empty when it does. Seconds
	// is how long that took, and Revision what it gave.
	Fault    string  `json:"fault,omitempty"`
	Seconds  float64 `json:"seconds"`
	Revision int64   `json:"revision,omitempty"`
	// Members are all that belong to the cluster.
	Members []Member `json:"members,omitempty"`
	// Alarms are what members have raised: NOSPACE or CORRUPT, and by whom.
	Alarms []Alarm `json:"alarms,omitempty"`
	// Publisher is the apiserver that publishes what changes there; empty if none does.
	Publisher string `json:"publisher,omitempty"`
}

// Member is one server of an etcd cluster, as far as it could be asked.
type Member struct {
	// Endpoint is where it was asked; empty for a member that no endpoint led to.
	Endpoint string `json:"endpoint,omitempty"`
	Name     string `json:"name,omitempty"`
	ID       string `json:"id,omitempty"`
	// Fault says why it does not answer.
	Fault string `json:"fault,omitempty"`
	// Version, Leader and Learner are what it is; Leader of this moment.
	Version string `json:"version,omitempty"`
	Leader  bool   `json:"leader,omitempty"`
	Learner bool   `json:"learner,omitempty"`
	// Size is that of the database in bytes, InUse what of it holds something, Quota what it may
	// have; 0 when the member does not tell.
	Size  int64 `json:"size,omitempty"`
	InUse int64 `json:"inUse,omitempty"`
	Quota int64 `json:"quota,omitempty"`
	// Unapplied is how many entries of the log it has not applied yet.
	Unapplied uint64 `json:"unapplied,omitempty"`
	// Errors is what it complains of itself.
	Errors []string `json:"errors,omitempty"`
	// Seconds is how long it took to answer.
	Seconds float64 `json:"seconds,omitempty"`
}

// Alarm is one that a member of etcd has raised.
type Alarm struct {
	Member string `json:"member"`
	Alarm  string `json:"alarm"`
}

// NATS is the bus as one apiserver sees it.
type NATS struct {
	// Fault says why it cannot be used; empty when it can.
	Fault string `json:"fault,omitempty"`
	// Server is the one that the apiserver is connected to, Version its version, Servers all of
	// its cluster that clients were told of, Seconds how long a message there and back took.
	Server  string   `json:"server,omitempty"`
	Version string   `json:"version,omitempty"`
	Servers []string `json:"servers,omitempty"`
	Seconds float64  `json:"seconds"`
	// Open says that it lets everybody in.
	Open bool `json:"open,omitempty"`
	// Streams are the logs of watch messages.
	Streams []Stream `json:"streams,omitempty"`
}

// Stream is a log of watch messages.
type Stream struct {
	Name string `json:"name"`
	// Fault says why nothing is known of it.
	Fault string `json:"fault,omitempty"`
	// Leader is the server that takes messages for it; empty in a single server, which has no
	// elections, and when none does.
	Leader string `json:"leader,omitempty"`
	// Clustered says that it is kept by a cluster; Wanted by how many servers of it.
	Clustered bool      `json:"clustered,omitempty"`
	Wanted    int       `json:"wanted,omitempty"`
	Replicas  []Replica `json:"replicas,omitempty"`
	// Messages and Bytes are what it holds, MaxBytes what it may; 0 for no bound.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	MaxBytes int64  `json:"maxBytes,omitempty"`
	// Last is the sequence number of the newest message, LastTime when it came.
	Last     uint64    `json:"last"`
	LastTime time.Time `json:"lastTime,omitzero"`
	// Consumers are JetStream consumers, of which Garboard has none.
	Consumers int `json:"consumers"`
}

// Replica is one server that keeps a stream, beside its leader.
type Replica struct {
	Name string `json:"name"`
	// Current says that it has all, Offline that it is not there; Lag is by how many operations
	// it is behind.
	Current bool   `json:"current"`
	Offline bool   `json:"offline,omitempty"`
	Lag     uint64 `json:"lag,omitempty"`
}
