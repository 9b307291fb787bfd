// Package attackers runs clients with hostile requests in a process of their own, at the lowest priority: elsewhere
// clients have machines of their own, and what they compute themselves must not slow down the requests that are timed.
package attackers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// Ordinary is the name of requests that are not hostile: they write ConfigMaps.
const Ordinary = "ordinary"

// Side is how to reach an apiserver.
type Side struct {
	Host, Token   string
	CA, Cert, Key []byte
}

// Config is the first line of the process's input.
type Config struct {
	Namespace string
	// Clients is the number of clients on each side, each with one request at a time.
	Clients int
	Sides   map[string]Side
}

// Greeting is the first line of the process's output.
type Greeting struct {
	// URL is that of a webhook with bad answers, and CA its certificate in PEM.
	URL string
	CA  []byte
	// Attacks are the names of the kinds of hostile requests.
	Attacks []string
}

// Order is each further line of the input: requests of a kind for a time.
type Order struct {
	Attack, Side string
	Length       time.Duration
}

// Outcome is the line of the output for an order: how many requests were answered, and an error that is no answer
// of the API.
type Outcome struct {
	Sent  int
	Error string `json:",omitempty"`
}

// Attackers is the process.
type Attackers struct {
	Greeting
	process *exec.Cmd
	input   io.Closer
	orders  *json.Encoder
	out     *json.Decoder
}

// SideOf returns how to reach the apiserver of a client's configuration.
func SideOf(config *rest.Config) (Side, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return Side{}, fmt.Errorf("reading a client's certificate: %w", err)
	}
	return Side{Host: config.Host, Token: config.BearerToken, CA: config.CAData, Cert: config.CertData, Key: config.KeyData}, nil
}

// Start builds the program in dir and starts it. The caller must Close it.
func Start(ctx context.Context, dir string, config Config) (*Attackers, error) {
	program := filepath.Join(dir, "attacker")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./bench/attackers/attacker")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building the attackers, which must run in the repository's root: %w", err)
	}
	a := &Attackers{process: exec.Command("nice", "-n", "19", program)}
	a.process.Stderr = os.Stderr
	in, err := a.process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the attackers: %w", err)
	}
	out, err := a.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the attackers: %w", err)
	}
	if err := a.process.Start(); err != nil {
		return nil, fmt.Errorf("starting the attackers: %w", err)
	}
	a.input, a.orders, a.out = in, json.NewEncoder(in), json.NewDecoder(out)
	if err := a.orders.Encode(config); err != nil {
		a.Close()
		return nil, fmt.Errorf("telling the attackers where to send requests: %w", err)
	}
	if err := a.out.Decode(&a.Greeting); err != nil {
		a.Close()
		return nil, fmt.Errorf("waiting for the attackers: %w", err)
	}
	return a, nil
}

// Attack has all clients of a side send requests for a time, and returns how many were answered.
func (a *Attackers) Attack(attack, side string, length time.Duration) (int, error) {
	if err := a.orders.Encode(Order{Attack: attack, Side: side, Length: length}); err != nil {
		return 0, fmt.Errorf("telling the attackers to begin: %w", err)
	}
	var outcome Outcome
	if err := a.out.Decode(&outcome); err != nil {
		return 0, fmt.Errorf("waiting for the attackers: %w", err)
	}
	if outcome.Error != "" {
		return outcome.Sent, fmt.Errorf("attacking: %s", outcome.Error)
	}
	return outcome.Sent, nil
}

// Close ends the process.
func (a *Attackers) Close() {
	_ = a.input.Close()
	_ = a.process.Wait()
}
