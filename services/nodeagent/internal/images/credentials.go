package images

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// dockerHub is the registry that docker's own tools know by other names.
const dockerHub = "docker.io"

// keyring holds credentials by registry and path prefix.
type keyring []credential

type credential struct {
	// host may contain "*" within one label of a domain name; path is a prefix without leading or
	// trailing slash.
	host, path string
	auth       runtime.Auth
}

// dockerConfigEntry is the entry of one registry in a docker configuration file.
type dockerConfigEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"` // base64 of username:password
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// readSecrets builds a keyring from imagePullSecrets of the types kubernetes.io/dockerconfigjson
// and kubernetes.io/dockercfg. It skips other types, as Kubernetes does. The error names the
// secrets that cannot be read; the rest of the keyring is valid.
func readSecrets(secrets []*corev1.Secret) (keyring, error) {
	var ring keyring
	var faults []error
	for _, secret := range secrets {
		entries, err := readSecret(secret)
		if err != nil {
			faults = append(faults, fmt.Errorf("reading the image pull secret %s/%s: %w", secret.Namespace, secret.Name, err))
			continue
		}
		for registry, entry := range entries {
			auth, err := entry.auth()
			if err != nil {
				faults = append(faults, fmt.Errorf("reading the image pull secret %s/%s: registry %q: %w", secret.Namespace, secret.Name, registry, err))
				continue
			}
			host, prefix := splitRegistry(registry)
			ring = append(ring, credential{host: host, path: prefix, auth: auth})
		}
	}
	// Most specific first; equal ones in a fixed order, so that attempts are the same each time.
	sort.SliceStable(ring, func(i, j int) bool {
		a, b := ring[i], ring[j]
		if len(a.path) != len(b.path) {
			return len(a.path) > len(b.path)
		}
		if a.host != b.host {
			return a.host > b.host
		}
		return a.auth.Username < b.auth.Username
	})
	return ring, errors.Join(faults...)
}

func readSecret(secret *corev1.Secret) (map[string]dockerConfigEntry, error) {
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var file struct {
			Auths map[string]dockerConfigEntry `json:"auths"`
		}
		data, ok := secret.Data[corev1.DockerConfigJsonKey]
		if !ok {
			return nil, fmt.Errorf("it has no key %s", corev1.DockerConfigJsonKey)
		}
		if err := json.Unmarshal(data, &file); err != nil {
			return nil, errors.New("its " + corev1.DockerConfigJsonKey + " is not valid JSON of docker's config.json") // the cause would reveal the content
		}
		return file.Auths, nil
	case corev1.SecretTypeDockercfg:
		var auths map[string]dockerConfigEntry
		data, ok := secret.Data[corev1.DockerConfigKey]
		if !ok {
			return nil, fmt.Errorf("it has no key %s", corev1.DockerConfigKey)
		}
		if err := json.Unmarshal(data, &auths); err != nil {
			return nil, errors.New("its " + corev1.DockerConfigKey + " is not valid JSON of docker's old configuration")
		}
		return auths, nil
	default:
		return nil, nil
	}
}

func (e dockerConfigEntry) auth() (runtime.Auth, error) {
	// No server address: runtimes compare it with the host they contact, which differs for a
	// registry with mirrors. The keyring has already checked which registry the credentials are
	// for.
	auth := runtime.Auth{
		Username: e.Username, Password: e.Password,
		IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}
	if e.Auth == "" || e.Username != "" {
		return auth, nil
	}
	plain, err := base64.StdEncoding.DecodeString(e.Auth)
	if err != nil {
		if plain, err = base64.RawStdEncoding.DecodeString(e.Auth); err != nil {
			return runtime.Auth{}, errors.New("its auth is not valid base64")
		}
	}
	user, password, found := strings.Cut(string(plain), ":")
	if !found {
		return runtime.Auth{}, errors.New("its auth is not base64 of username:password")
	}
	auth.Username, auth.Password = user, password
	return auth, nil
}

// splitRegistry parses a key of a docker configuration: a host with an optional port, scheme and
// path. "https://index.docker.io/v1/" is docker's notation for docker.io.
func splitRegistry(key string) (host, prefix string) {
	_, rest, found := strings.Cut(key, "://")
	if !found {
		rest = key
	}
	host, prefix, _ = strings.Cut(rest, "/")
	host = strings.ToLower(host)
	prefix = strings.Trim(prefix, "/")
	if prefix == "v1" || prefix == "v2" {
		prefix = ""
	}
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = dockerHub
	}
	return host, prefix
}

// lookup returns the credentials to try for a repository, most specific first.
func (k keyring) lookup(repository string) []runtime.Auth {
	host, rest, _ := strings.Cut(repository, "/")
	var found []runtime.Auth
	for _, c := range k {
		if hostMatches(c.host, host) && (c.path == "" || rest == c.path || strings.HasPrefix(rest, c.path+"/")) {
			found = append(found, c.auth)
		}
	}
	return found
}

// hostMatches compares label by label, with "*" matching (part of) one label; the port must be
// equal.
func hostMatches(pattern, host string) bool {
	patternName, patternPort, _ := strings.Cut(pattern, ":")
	hostName, hostPort, _ := strings.Cut(host, ":")
	if patternPort != hostPort {
		return false
	}
	patterns, labels := strings.Split(patternName, "."), strings.Split(hostName, ".")
	if len(patterns) != len(labels) {
		return false
	}
	for i := range patterns {
		if ok, err := path.Match(patterns[i], labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
