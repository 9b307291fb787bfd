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
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/scheme"
)

const (
	// retryRenewal is how long it takes until a renewal that has failed is tried again, maxFailures how
	// often in a row it may fail, and renewalTimeout how long one may take.
	retryRenewal   = 15 * time.Second
	maxFailures    = 8
	renewalTimeout = time.Minute
	// bootstrapKey is the key of the bootstrap kubeconfig in a Secret.
	bootstrapKey = "bootstrap-kubeconfig"
)

// tokenRenewal has new tokens take the place of old ones.
type tokenRenewal struct {
	every  time.Duration
	retire string
	secret string
}

func (r *tokenRenewal) flags(set *pflag.FlagSet) {
	set.DurationVar(&r.every, "renew-every", 0, "create another token in place of the last one whenever so much time has passed, until this program is told to end; less than half of --ttl. 0 for once")
	set.StringVar(&r.secret, "bootstrap-secret", "", "NAMESPACE/NAME of a Secret, in the cluster that this pod runs in, that gets the bootstrap kubeconfig")
	set.StringVar(&r.retire, "retire-token-file", "", "file with a token that is deleted when the new one counts; nothing is done if there is no such file, or no such token")
}

// check names what is wrong with the flags.
func (r *tokenRenewal) check(c *tokenCreate, args []string) error {
	namespace, name, both := strings.Cut(r.secret, "/")
	switch {
	case r.every < 0:
		return fmt.Errorf("--renew-every %v: give a time that is not negative", r.every)
	case r.every > 0 && (c.file != "" || len(args) > 0):
		return errors.New("--renew-every creates new tokens: give neither TOKEN nor --token-file")
	case r.every > 0 && (c.ttl == 0 || r.every > c.ttl/2):
		return fmt.Errorf("--renew-every %v: nodes need time to see the next token; give half of --ttl %v or less", r.every, c.ttl)
	case r.secret != "" && (!both || namespace == "" || name == "" || strings.Contains(name, "/")):
		return fmt.Errorf("--bootstrap-secret %q: give NAMESPACE/NAME", r.secret)
	}
	return nil
}

// renew creates tokens until ctx ends. A renewal that fails is told, and tried again; when that does not
// help for long it is an error: who starts this again may give it another network.
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
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

func (c *tokenCreate) once(ctx context.Context, out io.Writer, config *rest.Config, api client.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	one := *c
	return one.create(ctx, out, config, api, nil)
}

// keep writes the bootstrap kubeconfig to wherever it is wanted.
func (c *tokenCreate) keep(ctx context.Context, kubeconfig []byte) error {
	if c.bootstrap != "" {
		// At once: nodes may be reading it.
		if err := (pki.Files{}).Write(c.bootstrap, kubeconfig, pki.Secret); err != nil {
			return fmt.Errorf("writing the bootstrap kubeconfig: %w", err)
		}
	}
	if c.renewal.secret == "" {
		return nil
	}
	// Not the plane's kubeconfig: the Secret is where this program runs.
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

// keepSecret has a Secret hold the bootstrap kubeconfig.
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

// retireToken deletes the token that a file holds.
func (c *tokenCreate) retireToken(ctx context.Context, api client.Interface) error {
	if c.renewal.retire == "" {
		return nil
	}
	data, err := os.ReadFile(c.renewal.retire)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the token that is to be deleted: %w", err)
	}
	token, err := jointoken.Parse(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("reading the token that is to be deleted from %s: %w", c.renewal.retire, err)
	}
	if err := jointoken.Delete(ctx, api, token.ID); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
