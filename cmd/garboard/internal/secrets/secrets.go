// Package secrets stores the files of package deployment in Secrets of a Kubernetes cluster, one
// for each folder, so that a deployment there needs no persistent volume.
//
// It needs permission to create Secrets in one namespace, and to get and update those that Names
// returns.
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

// keysSecret is the part of KeysOnly: every file that is not a certificate.
const keysSecret = "keys"

// gatewayFolder holds nothing that other folders lack: a cluster's Services replace the gateway.
const gatewayFolder = "gateway"

// keyFiles are the files other than certificates, with the folder of each.
var keyFiles = map[string]string{
	"sa.key": "apiserver", pki.BusIssuerFile: "apiserver", pki.BusUserFile: "apiserver",
	pki.BusConfigFile: "nats", "bootstrap-token": "admin",
}

// Config configures Sync.
type Config struct {
	// Client is a client of the cluster that holds the Secrets.
	Client client.Interface
	// Namespace is that of the Secrets. The name of each is Prefix, a hyphen, and the folder's
	// name.
	Namespace, Prefix string
	// KeysOnly stores only the files other than certificates, in one Secret whose name ends with
	// -keys; another program must then issue the certificates.
	KeysOnly bool
	// Labels are the labels of new Secrets.
	Labels map[string]string
	// Fill configures the files. Its Dir is not used.
	Fill deployment.Config
	// Report is called with the outcome for each Secret; may be nil.
	Report func(name string, outcome pki.Outcome)
}

// Names returns the names of the Secrets in the order in which Sync writes them: the authorities
// first, since everything else can be regenerated from them.
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

// folder returns the folder of a file of a Secret; ours is false for files of others.
func (c Config) folder(part, file string) (folder string, ours bool) {
	if !c.KeysOnly {
		return part, filepath.Base(file) == file
	}
	folder, ours = keyFiles[file]
	return folder, ours
}

// Sync creates what is missing in the Secrets, and reissues what expires soon, as deployment.Fill
// does for files. Concurrent calls do no harm: one of them fails, and may be retried. Sync leaves
// other entries of a Secret alone.
func Sync(ctx context.Context, cfg Config) (err error) {
	if cfg.Report == nil {
		cfg.Report = func(string, pki.Outcome) {}
	}
	dir, err := os.MkdirTemp("", "garboard-secrets-")
	if err != nil {
		return fmt.Errorf("creating a working directory: %w", err)
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
		return fmt.Errorf("generating the content of the Secrets %s/%s-*: %w", cfg.Namespace, cfg.Prefix, err)
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
			return fmt.Errorf("creating a working directory: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, name), data, 0o600); err != nil {
			return fmt.Errorf("writing a working file: %w", err)
		}
	}
	return nil
}

// pack reads the data for a Secret.
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
		return nil, fmt.Errorf("reading the generated files: %w", err)
	}
	for _, entry := range entries {
		// The lock file belongs to the temporary folder.
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
		return fmt.Errorf("reading the generated files: %w", err)
	}
	into[name] = data
	return nil
}

// write brings a Secret's data up to date. old is nil if the Secret does not exist.
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
		// old has the resourceVersion that was read, so the update cannot overwrite other changes.
		_, err = secrets.Update(ctx, old, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("another program changed the Secret %s/%s at the same time; run this again: %w", c.Namespace, c.name(part), err)
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
