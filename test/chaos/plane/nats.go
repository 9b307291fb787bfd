package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// NATS is a NATS server.
type NATS struct {
	// Name is the name of the server.
	Name string

	address, monitor, store, text string
	process                       *Process
}

// natsConfig is a server's configuration. Servers do not advertise each other, because clients must
// not learn of connections that bypass their proxies.
const natsConfig = `server_name: %s
listen: %s
http: %s
jetstream { store_dir: %q }
include %q
%s
`

const natsCluster = `cluster { name: chaos, listen: "127.0.0.1:%d", routes: [%s], no_advertise: true }
`

// placeNATS chooses the ports of the servers.
func (p *Plane) placeNATS(ctx context.Context) error {
	var ports, routes []int
	for range 3 * p.cfg.NATS {
		port, err := FreePort(ctx)
		if err != nil {
			return err
		}
		ports = append(ports, port)
	}
	var urls []string
	for i := range p.cfg.NATS {
		routes = append(routes, ports[3*i+2])
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", routes[i]))
	}
	for i := range p.cfg.NATS {
		n := &NATS{
			Name: fmt.Sprintf("nats-%d", i), address: fmt.Sprintf("127.0.0.1:%d", ports[3*i]), monitor: fmt.Sprintf("127.0.0.1:%d", ports[3*i+1]),
		}
		n.store = filepath.Join(p.cfg.Dir, n.Name)
		n.text = fmt.Sprintf(natsConfig, n.Name, n.address, n.monitor, n.store, filepath.Join(keysFolder, usersFile), p.cfg.NATSSettings)
		if p.cfg.NATS > 1 {
			n.text += fmt.Sprintf(natsCluster, routes[i], strings.Join(urls, ", "))
		}
		n.process = NewProcess(n.Name, p.cfg.Dir, []string{p.cfg.Binaries.NATS, "-c", n.store + ".conf"}, nil)
		p.NATS = append(p.NATS, n)
	}
	return nil
}

// usersFile makes NATS ask the apiservers to authenticate its clients; the apiservers write it.
const usersFile = "nats-auth.conf"

// startNATS starts the servers.
func (p *Plane) startNATS(ctx context.Context) error {
	if err := poll(ctx, "the NATS configuration from the apiservers", func(context.Context) error {
		_, err := os.Stat(filepath.Join(p.keys(), usersFile))
		return err
	}); err != nil {
		return err
	}
	for _, n := range p.NATS {
		if err := os.WriteFile(n.store+".conf", []byte(n.text), 0o600); err != nil {
			return fmt.Errorf("configuring %s: %w", n.Name, err)
		}
		if err := n.process.Start(); err != nil {
			return err
		}
	}
	for _, n := range p.NATS {
		if err := n.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (n *NATS) wait(ctx context.Context) error {
	return poll(ctx, n.Name, func(ctx context.Context) error {
		return errors.Join(n.process.Died(), listening(ctx, n.address))
	})
}

// PID returns the process's ID.
func (n *NATS) PID() int { return n.process.PID() }

// Traffic is the number of messages and bytes that a NATS server has sent to its clients since it
// started.
type Traffic struct {
	Messages int64 `json:"out_msgs"`
	Bytes    int64 `json:"out_bytes"`
}

// Traffic returns what the server has sent.
func (n *NATS) Traffic(ctx context.Context) (Traffic, error) {
	var t Traffic
	err := getJSON(ctx, "http://"+n.monitor+"/varz", &t)
	return t, err
}

// Kill ends the server abruptly, like a power failure.
func (n *NATS) Kill() { n.process.Kill() }

// Restart starts the server again.
func (n *NATS) Restart(ctx context.Context) error {
	if err := n.process.Start(); err != nil {
		return err
	}
	return n.wait(ctx)
}

// Wipe deletes the data of the server, which must not run.
func (n *NATS) Wipe() error { return os.RemoveAll(n.store) }

// streams is a server's report about its streams: /jsz.
type streams struct {
	Accounts []struct {
		Streams []struct {
			Name   string `json:"name"`
			Config struct {
				Replicas int `json:"num_replicas"`
			} `json:"config"`
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
		} `json:"stream_detail"`
	} `json:"account_details"`
}

// LogLeader returns the server that leads the log of watch messages, and the log's number of
// replicas.
func (p *Plane) LogLeader(ctx context.Context) (leader *NATS, replicas int, err error) {
	err = poll(ctx, "a leader of the log", func(ctx context.Context) error {
		for _, n := range p.NATS {
			if !n.process.Running() {
				continue
			}
			var found streams
			if err := getJSON(ctx, "http://"+n.monitor+"/jsz?accounts=true&streams=true&config=true", &found); err != nil {
				return err
			}
			for _, account := range found.Accounts {
				for _, stream := range account.Streams {
					for _, candidate := range p.NATS {
						if candidate.Name == stream.Cluster.Leader && candidate.process.Running() {
							leader, replicas = candidate, stream.Config.Replicas
							return nil
						}
					}
				}
			}
		}
		return errors.New("no server knows the leader")
	})
	return leader, replicas, err
}

func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the response of %s: %w", url, err)
	}
	return nil
}
