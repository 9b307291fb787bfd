package nodeagent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/nodeagent"
)

// bootstrap is a kubeconfig that names no apiserver.
const bootstrap = `apiVersion: v1
kind: Config
clusters: [{name: plane, cluster: {}}]
users: [{name: node, user: {token: abcdef.0123456789abcdef}}]
contexts: [{name: node, context: {cluster: plane, user: node}}]
current-context: node
`

// TestJoinEndsItsConnection: an agent that nothing answers stops joining when it is told to, and ends the
// connection to NATS over which it asked. TestMain looks for what is left of one.
func TestJoinEndsItsConnection(t *testing.T) {
	dir := t.TempDir()
	cfg := nodeagent.Config{
		NodeName: "node-1", DataDir: filepath.Join(dir, "data"), Service: onPlane(), Bootstrap: filepath.Join(dir, "kubeconfig"),
		Runtime: nodeagent.RuntimeConfig{Endpoint: nodeagent.SimulatedRuntime},
	}
	if err := os.WriteFile(cfg.Bootstrap, []byte(bootstrap), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []client.Transport{client.TransportNATS, client.TransportAuto} {
		t.Run(string(transport), func(t *testing.T) {
			cfg.Service.API, cfg.Service.Transport = nil, transport
			agent, err := nodeagent.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := agent.Join(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("joining ended with %v", err)
			}
		})
	}
}
