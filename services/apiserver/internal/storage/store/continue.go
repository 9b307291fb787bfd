package store

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
)

const continueVersion = "meta.k8s.io/v1"

// continueToken is what a client sends to get the next page. Its format is Kubernetes' (apiserver,
// storage/continue.go), so a list can continue on a different server.
type continueToken struct {
	Version string `json:"v"`
	// Revision is the revision of the first page; -1 requests the newest instead.
	Revision int64 `json:"rv"`
	// Start is the first key of the next page, relative to the range's prefix.
	Start string `json:"start"`
}

// ContinueAfter returns the token that continues a list of a kind after an object, at a revision
// that etcd must have reached. An empty namespace lists all namespaces.
func (s *Store) ContinueAfter(kind *scheme.Kind, listed, namespace, name string, revision int64) (string, error) {
	prefix, err := s.rangePrefix(kind, listed)
	if err != nil {
		return "", err
	}
	return encodeContinue(s.prefix+kind.Key(namespace, name)+"\x00", prefix, revision)
}

// ContinueFrom decodes a token. It returns the revision at which the list continues, -1 for the
// newest, and the position to continue from, as "namespace/name"; the namespace is empty for
// cluster-scoped kinds. It returns a BadRequest API error if the token is invalid.
func (s *Store) ContinueFrom(kind *scheme.Kind, listed, token string) (from string, revision int64, err error) {
	prefix, err := s.rangePrefix(kind, listed)
	if err != nil {
		return "", 0, err
	}
	start, revision, err := decodeContinue(token, prefix)
	if err != nil {
		return "", 0, invalidContinue(err)
	}
	from = strings.TrimPrefix(start, s.prefix+kind.StoragePrefix+"/")
	if !kind.Namespaced {
		from = "/" + from
	}
	return from, revision, nil
}

func invalidContinue(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
}

func encodeContinue(key, prefix string, revision int64) (string, error) {
	start, ok := strings.CutPrefix(key, prefix)
	if !ok || start == "" {
		return "", fmt.Errorf("unable to encode next field: the key and key prefix do not match %s %s", prefix, key)
	}
	data, err := json.Marshal(continueToken{Version: continueVersion, Revision: revision, Start: start})
	if err != nil {
		return "", fmt.Errorf("encoding a continue token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(data), nil
}

// decodeContinue returns the key and the revision at which a list continues. The key never leaves
// prefix, whatever the token contains.
func decodeContinue(token, prefix string) (key string, revision int64, err error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	var found continueToken
	if err := json.Unmarshal(data, &found); err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	switch {
	case found.Version != continueVersion:
		return "", 0, fmt.Errorf("continue key is not valid: server does not recognize this encoded version %v", found.Version)
	case found.Revision == 0:
		return "", 0, errors.New("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case found.Start == "":
		return "", 0, errors.New("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	}
	rooted := "/" + strings.TrimPrefix(found.Start, "/")
	if path.Clean(rooted) != rooted {
		return "", 0, fmt.Errorf("continue key is not valid: %v", found.Start)
	}
	return prefix + rooted[1:], found.Revision, nil
}
