package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/cmd/garboard/internal/jointoken"
	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/scheme"
)

const (
	// retryRenewal is the delay before a failed renewal is retried, maxFailures the number of
	// consecutive failures that ends the program, and renewalTimeout the limit of one renewal.
	retryRenewal   = 15 * time.Second
	maxFailures    = 8
	renewalTimeout = time.Minute
	// bootstrapKey is the key of the bootstrap kubeconfig in a Secret.
	bootstrapKey = "bootstrap-kubeconfig"
)

// tokenRenewal replaces old tokens by new ones.
type tokenRenewal struct {
	every  time.Duration
	retire string
	secret string
}

func (r *tokenRenewal) flags(set *pflag.FlagSet) {
	set.DurationVar(&r.every, "renew-every", 0, "interval at which to create another token in place of the last one, until this program is told to stop; at most half of --ttl. 0 creates one token")
	set.StringVar(&r.secret, "bootstrap-secret", "", "NAMESPACE/NAME of a Secret, in the cluster that this pod runs in, to write the bootstrap kubeconfig to")
	set.StringVar(&r.retire, "retire-token-file", "", "file with a token to delete once the new one is valid; a missing file or token is ignored")
}

// check returns an error about the first invalid flag.
func (r *tokenRenewal) check(c *tokenCreate, args []string) error {
	namespace, name, both := strings.Cut(r.secret, "/")
	switch {
	case r.every < 0:
		return fmt.Errorf("--renew-every %v: must not be negative", r.every)
	case r.every > 0 && (c.file != "" || len(args) > 0):
		return errors.New("--renew-every creates new tokens: give neither TOKEN nor --token-file")
	case r.every > 0 && (c.ttl == 0 || r.every > c.ttl/2):
		return fmt.Errorf("--renew-every %v: must be at most half of --ttl %v: nodes need time to see the next token", r.every, c.ttl)
	case r.secret != "" && (!both || namespace == "" || name == "" || strings.Contains(name, "/")):
		return fmt.Errorf("--bootstrap-secret %q: give NAMESPACE/NAME", r.secret)
	}
	return nil
}

// renew creates tokens until ctx ends. It reports a failed renewal and retries it. After
// maxFailures consecutive failures it returns the error: a restart may give this program another
// network.
func (c *tokenCreate) renew(ctx context.Context, out, problems io.Writer, config *rest.Config, api client.Interface) error {
	for failures := 0; ; {
		next := c.renewal.every
		err := c.once(ctx, out, config, api)
		if err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			if failures++; failures >= maxFailures {
				return err
			}
			next = min(retryRenewal, next)
			_, _ = fmt.Fprintf(problems, "%v; trying again in %v\n", err, next)
		}
		if !backoff.Sleep(ctx, next) {
			return nil
		}
	}
}

func (c *tokenCreate) once(ctx context.Context, out io.Writer, config *rest.Config, api client.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	one := *c
	return one.create(ctx, out, config, api, nil)
}

// keep writes the bootstrap kubeconfig to the configured file and Secret.
func (c *tokenCreate) keep(ctx context.Context, kubeconfig []byte) error {
	if c.bootstrap != "" {
		// Write replaces the file atomically, since nodes may be reading it.
		if err := (pki.Files{}).Write(c.bootstrap, kubeconfig, pki.Secret); err != nil {
			return fmt.Errorf("writing the bootstrap kubeconfig: %w", err)
		}
	}
	if c.renewal.secret == "" {
		return nil
	}
	// Not the plane's kubeconfig: the Secret is in the cluster in which this program runs.
	config, err := client.LoadConfig("")
	if err != nil {
		return err
	}
	cluster, err := client.New(config, scheme.New())
	if err != nil {
		return err
	}
	return keepSecret(ctx, cluster, c.renewal.secret, kubeconfig)
}

// keepSecret stores the bootstrap kubeconfig in a Secret.
func keepSecret(ctx context.Context, cluster client.Interface, where string, kubeconfig []byte) error {
	namespace, name, _ := strings.Cut(where, "/")
	secrets := client.Of[*corev1.Secret](cluster)
	secret, err := secrets.Get(ctx, namespace, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{bootstrapKey: kubeconfig},
		}, metav1.CreateOptions{})
	case err == nil:
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[bootstrapKey] = kubeconfig
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing the Secret %s: %w", where, err)
	}
	return nil
}

// retireToken deletes the token in a file.
func (c *tokenCreate) retireToken(ctx context.Context, api client.Interface) error {
	if c.renewal.retire == "" {
		return nil
	}
	data, err := os.ReadFile(c.renewal.retire)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the token to delete: %w", err)
	}
	token, err := jointoken.Parse(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("reading the token to delete from %s: %w", c.renewal.retire, err)
	}
	if err := jointoken.Delete(ctx, api, token.ID); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
