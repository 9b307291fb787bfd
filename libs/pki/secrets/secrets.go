// Package secrets keeps what package deployment makes in Secrets of a Kubernetes cluster, one for
// each folder, so that a deployment there needs no volume that outlives it.
//
// It needs the right to create Secrets in one namespace, and to get and update those that Names
// gives.
package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/pki/deployment"
)

// keysSecret is the Secret of what is no certificate, when others make these.
const keysSecret = "keys"

// gatewayFolder has nothing that others have not: a cluster's Services take a gateway's place.
const gatewayFolder = "gateway"

// keyFiles are what is no certificate, by file and with the folder that it is in.
var keyFiles = map[string]string{
	"sa.key": "apiserver", pki.BusIssuerFile: "apiserver", pki.BusUserFile: "apiserver",
	pki.BusConfigFile: "nats", "bootstrap-token": "admin",
}

// Config says which Secrets are kept.
type Config struct {
	// Client reaches the cluster that has the Secrets.
	Client client.Interface
	// Namespace is that of the Secrets. The name of each is Prefix, a hyphen, and the folder's
	// name.
	Namespace, Prefix string
	// KeysOnly keeps what is no certificate, in one Secret whose name ends with -keys; the
	// certificates are then somebody else's to make.
	KeysOnly bool
	// Labels are put on new Secrets.
	Labels map[string]string
	// Fill says what is made. Its Dir is not used.
	Fill deployment.Config
	// Report is told what became of each Secret; nil for nobody.
	Report func(name string, outcome pki.Outcome)
}

// Names are the names of the Secrets, in the order in which they are written: the authorities
// first, since all else can be made anew from these.
func (c Config) Names() []string {
	var names []string
	for _, part := range c.parts() {
		names = append(names, c.name(part))
	}
	return names
}

func (c Config) name(part string) string { return c.Prefix + "-" + part }

func (c Config) parts() []string {
	if c.KeysOnly {
		return []string{keysSecret}
	}
	return slices.DeleteFunc(deployment.Folders(), func(folder string) bool { return folder == gatewayFolder })
}

// folder is where a file of a Secret is.
func (c Config) folder(part, file string) (folder string, ours bool) {
	if !c.KeysOnly {
		return part, filepath.Base(file) == file
	}
	folder, ours = keyFiles[file]
	return folder, ours
}

// Sync makes what is missing in the Secrets, and makes anew what ends soon, as deployment.Fill
// does for files. Two that do so at a time do not harm each other: one fails, and may try again.
// What a Secret has besides is left alone.
func Sync(ctx context.Context, cfg Config) (err error) {
	if cfg.Report == nil {
		cfg.Report = func(string, pki.Outcome) {}
	}
	dir, err := os.MkdirTemp("", "garboard-secrets-")
	if err != nil {
		return fmt.Errorf("making a folder to work in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	there := map[string]*corev1.Secret{}
	for _, part := range cfg.parts() {
		secret, err := client.Of[*corev1.Secret](cfg.Client).Get(ctx, cfg.Namespace, cfg.name(part), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the Secret %s/%s: %w", cfg.Namespace, cfg.name(part), err)
		}
		if err := cfg.unpack(secret, part, dir); err != nil {
			return err
		}
		there[part] = secret
	}
	fill := cfg.Fill
	fill.Dir = dir
	if err := deployment.Fill(fill); err != nil {
		return fmt.Errorf("making what belongs into the Secrets %s/%s-*: %w", cfg.Namespace, cfg.Prefix, err)
	}
	for _, part := range cfg.parts() {
		data, err := cfg.pack(part, dir)
		if err != nil {
			return err
		}
		if err := cfg.write(ctx, part, there[part], data); err != nil {
			return err
		}
	}
	return nil
}

// unpack writes a Secret's files below dir.
func (c Config) unpack(secret *corev1.Secret, part, dir string) error {
	for name, data := range secret.Data {
		folder, ours := c.folder(part, name)
		if !ours {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return fmt.Errorf("making a folder to work in: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, name), data, 0o600); err != nil {
			return fmt.Errorf("writing a file to work with: %w", err)
		}
	}
	return nil
}

// pack reads what belongs into a Secret.
func (c Config) pack(part, dir string) (map[string][]byte, error) {
	data := map[string][]byte{}
	if c.KeysOnly {
		for name, folder := range keyFiles {
			if err := read(data, dir, folder, name); err != nil {
				return nil, err
			}
		}
		return data, nil
	}
	entries, err := os.ReadDir(filepath.Join(dir, part))
	if err != nil {
		return nil, fmt.Errorf("reading what was made: %w", err)
	}
	for _, entry := range entries {
		// The lock is one of the folder, which nobody else knows.
		if !entry.Type().IsRegular() || entry.Name() == ".lock" {
			continue
		}
		if err := read(data, dir, part, entry.Name()); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func read(into map[string][]byte, dir, folder, name string) error {
	data, err := os.ReadFile(filepath.Join(dir, folder, name))
	if err != nil {
		return fmt.Errorf("reading what was made: %w", err)
	}
	into[name] = data
	return nil
}

// write makes a Secret have data, if it has not. old is nil when there is none.
func (c Config) write(ctx context.Context, part string, old *corev1.Secret, data map[string][]byte) error {
	secrets, outcome := client.Of[*corev1.Secret](c.Client), pki.Kept
	var err error
	switch {
	case old == nil:
		outcome = pki.Made
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.name(part), Labels: c.Labels},
			Type:       corev1.SecretTypeOpaque, Data: data,
		}, metav1.CreateOptions{})
	case !contains(old.Data, data):
		outcome = pki.Renewed
		if old.Data == nil {
			old.Data = map[string][]byte{}
		}
		maps.Copy(old.Data, data)
		// It has the resourceVersion that was read, so nobody's work is lost.
		_, err = secrets.Update(ctx, old, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("somebody else writes the Secret %s/%s at the same time; run this again: %w", c.Namespace, c.name(part), err)
	}
	if err != nil {
		return fmt.Errorf("writing the Secret %s/%s: %w", c.Namespace, c.name(part), err)
	}
	c.Report(c.name(part), outcome)
	return nil
}

func contains(have, want map[string][]byte) bool {
	return !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool {
		data, ok := have[name]
		return !ok || !bytes.Equal(data, want[name])
	})
}
