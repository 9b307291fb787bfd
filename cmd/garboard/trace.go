package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

// maxTrace bounds the apiserver's response in bytes: far more than its recorder holds.
const maxTrace = 64 << 20

func traceCommand() *cobra.Command {
	var kubeconfig, namespace string
	cmd := &cobra.Command{
		Use: "trace deployment NAME", Short: "Show every hop of a Deployment's latest rollout, with revision and latency",
		Example: "  garboard trace deployment nginx-deployment",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || (args[0] != "deployment" && args[0] != "deployments" && args[0] != "deploy") {
				return fmt.Errorf("give a kind and a name: garboard trace deployment NAME")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			config, current, err := client.LoadNamespace(kubeconfig)
			if err != nil {
				return err
			}
			if namespace == "" {
				namespace = current
			}
			return traceDeployment(cmd.Context(), cmd.OutOrStdout(), config, namespace, args[1])
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; when empty, the one that kubectl uses")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace; when empty, the kubeconfig's")
	return cmd
}

func traceDeployment(ctx context.Context, w io.Writer, config *rest.Config, namespace, name string) error {
	api, err := client.New(config, scheme.New())
	if err != nil {
		return err
	}
	if _, err := client.Of[*appsv1.Deployment](api).Get(ctx, namespace, name, metav1.GetOptions{}); err != nil {
		return err
	}
	hops, err := fetchHops(ctx, config)
	if err != nil {
		return err
	}
	// The ReplicaSets and Pods of a Deployment, deleted ones too, bear its name.
	return trace.LatestRollout(hops, trace.Ref{Resource: "deployments", Namespace: namespace, Name: name}, func(ref trace.Ref) bool {
		return ref.Namespace == namespace && (ref.Resource == "replicasets" || ref.Resource == "pods") && generated(ref.Name, name)
	}).Write(w)
}

// generated reports whether name is one that controllers derive from a Deployment's: its name, the
// hash of the template, and for a pod five more letters.
func generated(name, deployment string) bool {
	rest, ok := strings.CutPrefix(name, deployment+"-")
	return ok && rest != "" && strings.Count(rest, "-") <= 1
}

func fetchHops(ctx context.Context, config *rest.Config) ([]trace.Hop, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating an HTTP client: %w", err)
	}
	url := strings.TrimSuffix(config.Host, "/") + "/debug/garboard/trace"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for the hops: %w", err)
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the apiserver for the hops: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxTrace))
	if err != nil {
		return nil, fmt.Errorf("reading the hops: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the apiserver does not return its hops: %s: %s", res.Status, strings.TrimSpace(string(body)))
	}
	var hops []trace.Hop
	if err := json.Unmarshal(body, &hops); err != nil {
		return nil, fmt.Errorf("reading the hops that the apiserver sent: %w", err)
	}
	return hops, nil
}
