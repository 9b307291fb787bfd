package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/garboard/garboard/bench/node"
)

// patience bounds every wait but that for all Services.
const patience = time.Minute

// side is a program that leads traffic to Services.
type side struct {
	name  string
	start func() (*node.Program, error)
}

func (b *bench) both() []side {
	sides := []side{{"Garboard", func() (*node.Program, error) {
		return b.node.Agent("agent", "--service-proxy", "--dns=false")
	}}}
	if b.kubeProxy == "" {
		return sides
	}
	return append(sides, side{"kube-proxy", func() (*node.Program, error) {
		// The limits of connections belong to the machine.
		return node.Run(b.node.Dir, "kube-proxy", b.kubeProxy, "--kubeconfig", b.node.Kubeconfig(), "--hostname-override", node.Name,
			"--proxy-mode", "nftables", "--conntrack-max-per-core", "0", "--conntrack-min", "0", "--conntrack-tcp-timeout-established", "0",
			"--conntrack-tcp-timeout-close-wait", "0", "--metrics-bind-address", "127.0.0.1:10249", "--healthz-bind-address", "127.0.0.1:10256")
	}})
}

// removeRules removes all packet rules.
func removeRules(ctx context.Context) error {
	// The next program must find nothing even if this benchmark is about to end.
	out, err := exec.CommandContext(context.WithoutCancel(ctx), "nft", "flush", "ruleset").CombinedOutput()
	if err != nil {
		return fmt.Errorf("removing all packet rules: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// healthy reports whether a program says that it is ready.
func healthy(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
