package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/cmd/garboard/internal/secrets"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/pki/deployment"
	"github.com/garboard/garboard/libs/scheme"
)

// secretStore is where `garboard init` stores everything if not in a directory: in Secrets of a
// cluster.
type secretStore struct {
	where      string
	keysOnly   bool
	labels     map[string]string
	kubeconfig string
}

func (s *secretStore) flags(set *pflag.FlagSet) {
	set.StringVar(&s.where, "secrets", "", "NAMESPACE/PREFIX of Secrets to create or complete in place of directories, PREFIX-apiserver and so on, in the cluster of the pod or of --kubeconfig")
	set.BoolVar(&s.keysOnly, "secrets-keys-only", false, "store only what is not a certificate, in the Secret PREFIX-keys; certificates are created by other means")
	set.StringToStringVar(&s.labels, "secrets-labels", nil, "labels of new Secrets, KEY=VALUE,...")
	set.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig file for --secrets; when empty, the one that kubectl uses")
}

// wanted reports whether to use Secrets instead of a directory.
func (s *secretStore) wanted() bool { return s.where != "" }

// fill creates what is missing and prints one line per Secret.
func (s *secretStore) fill(ctx context.Context, cfg deployment.Config, out io.Writer) error {
	namespace, prefix, err := s.place()
	if err != nil {
		return err
	}
	if cfg.Dir != "" || len(cfg.Owners) > 0 {
		return errors.New("--out and --owner are about directories and cannot be used with --secrets")
	}
	config, err := client.LoadConfig(s.kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := client.New(config, scheme.New())
	if err != nil {
		return err
	}
	cfg.Report = nil
	return secrets.Sync(ctx, secrets.Config{
		Client: cluster, Namespace: namespace, Prefix: prefix, KeysOnly: s.keysOnly, Labels: s.labels, Fill: cfg,
		Report: func(name string, outcome pki.Outcome) {
			_, _ = fmt.Fprintf(out, "%-8s%s/%s\n", outcome, namespace, name)
		},
	})
}

func (s *secretStore) place() (namespace, prefix string, err error) {
	namespace, prefix, both := strings.Cut(s.where, "/")
	if !both || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(prefix)) > 0 {
		return "", "", fmt.Errorf("--secrets %q: give NAMESPACE/PREFIX, such as planes/garboard", s.where)
	}
	return namespace, prefix, nil
}
