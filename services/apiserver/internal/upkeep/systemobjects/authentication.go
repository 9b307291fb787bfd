package systemobjects

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// The ConfigMap by which API servers of others learn how this one authenticates clients, and its
// keys. Kubernetes' names.
const (
	authenticationName = "extension-apiserver-authentication"
	clientCAKey        = "client-ca-file"
	proxyCAKey         = "requestheader-client-ca-file"
)

// certificateBlock is the type of the PEM blocks of certificates.
const certificateBlock = "CERTIFICATE"

// expirySlack is how long an expired authority stays published; Kubernetes' value.
const expirySlack = 5 * time.Minute

const uidHeadersKey = "requestheader-uid-headers"

// own is what this server adds to what is published.
type own struct {
	clients []*x509.Certificate
	proxies []*x509.Certificate
	// lists are those that belong to the authorities of front proxies, by key.
	lists map[string][]string
}

// own returns what this server publishes at present.
func (o *Objects) own() own {
	var mine own
	if o.ClientCAs != nil {
		mine.clients = o.ClientCAs()
	}
	proxy := FrontProxy{}
	if o.FrontProxy != nil {
		proxy, mine.proxies = *o.FrontProxy, o.FrontProxy.CAs()
	}
	mine.lists = map[string][]string{
		"requestheader-allowed-names": proxy.AllowedNames, "requestheader-extra-headers-prefix": proxy.ExtraHeaderPrefixes,
		"requestheader-group-headers": proxy.GroupHeaders, uidHeadersKey: proxy.UIDHeaders, "requestheader-username-headers": proxy.UsernameHeaders,
	}
	return mine
}

// publishAuthentication adds this server's authorities, and how it knows front proxies, to what is
// published, and drops the expired authorities.
func (o *Objects) publishAuthentication(ctx context.Context) error {
	mine := o.own()
	return o.keepConfigMap(ctx, authenticationName, func(data map[string]string, _ bool) (map[string]string, error) {
		return mine.joinedTo(data, time.Now())
	})
}

// joinedTo returns what is published, given what was published before.
func (o own) joinedTo(before map[string]string, now time.Time) (map[string]string, error) {
	data := map[string]string{}
	clients, err := joined(before[clientCAKey], o.clients, now)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", clientCAKey, err)
	}
	if clients != "" {
		data[clientCAKey] = clients
	}
	lists := map[string]string{}
	for key, mine := range o.lists {
		unique, err := joinedList(before[key], mine)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", key, err)
		}
		if key == uidHeadersKey && len(unique) == 0 {
			continue
		}
		text, err := json.Marshal(unique)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", key, err)
		}
		lists[key] = string(text)
	}
	proxies, err := joined(before[proxyCAKey], o.proxies, now)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", proxyCAKey, err)
	}
	if proxies == "" { // Without an authority the lists mean nothing.
		return data, nil
	}
	data[proxyCAKey] = proxies
	maps.Copy(data, lists)
	return data, nil
}

// joinedList returns the elements of a JSON list and further ones, each once.
func joinedList(list string, further []string) ([]string, error) {
	all, unique := []string{}, []string{}
	if list != "" {
		if err := json.Unmarshal([]byte(list), &all); err != nil {
			return nil, err
		}
	}
	for _, name := range append(all, further...) {
		if !slices.Contains(unique, name) {
			unique = append(unique, name)
		}
	}
	return unique, nil
}

// joined returns the certificates of a PEM bundle and further ones as a bundle: each once, without
// the expired ones.
func joined(bundle string, further []*x509.Certificate, now time.Time) (string, error) {
	var all []*x509.Certificate
	if bundle != "" {
		found, err := parsed([]byte(bundle))
		if err != nil {
			return "", err
		}
		all = found
	}
	var kept []*x509.Certificate
	var text strings.Builder
	for _, c := range append(all, further...) {
		if !c.NotAfter.After(now.Add(-expirySlack)) || slices.ContainsFunc(kept, c.Equal) {
			continue
		}
		kept = append(kept, c)
		if err := pem.Encode(&text, &pem.Block{Type: certificateBlock, Bytes: c.Raw}); err != nil {
			return "", fmt.Errorf("encoding certificates: %w", err)
		}
	}
	return text.String(), nil
}

// parsed returns the certificates of a PEM bundle, which must have one.
func parsed(bundle []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock || len(block.Headers) != 0 {
			continue
		}
		certs, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing certificates: %w", err)
		}
		found = append(found, certs...)
	}
	if len(found) == 0 {
		return nil, errors.New("data does not contain any valid RSA or ECDSA certificates")
	}
	return found, nil
}

// dataChange returns the new data of a ConfigMap. exists is false if there is no such ConfigMap yet; it
// is not created if the new data is empty.
type dataChange func(data map[string]string, exists bool) (map[string]string, error)

// keepConfigMap changes the data of a ConfigMap of kube-system, and creates the ConfigMap if
// necessary. A ConfigMap that became too large is deleted, so that the next attempt starts anew.
func (o *Objects) keepConfigMap(ctx context.Context, name string, change dataChange) error {
	resource := o.Registry.Resource(scheme.For[*corev1.ConfigMap](o.Table))
	exists := true
	changed := func(current scheme.Object) (scheme.Object, error) {
		object, ok := current.DeepCopyObject().(*corev1.ConfigMap)
		if !ok {
			return nil, fmt.Errorf("found a %T", current)
		}
		data, err := change(object.Data, exists)
		if err != nil || apiequality.Semantic.DeepEqual(object.Data, data) {
			return current, err
		}
		object.Data = data
		return object, nil
	}
	_, err := resource.Get(ctx, metav1.NamespaceSystem, name)
	if apierrors.IsNotFound(err) {
		exists = false
		current := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}
		var fresh scheme.Object
		if fresh, err = changed(current); err == nil && fresh != scheme.Object(current) {
			_, err = resource.Create(ctx, metav1.NamespaceSystem, fresh, metav1.CreateOptions{FieldManager: writer})
			if apierrors.IsAlreadyExists(err) {
				err = nil // Another apiserver was faster; the next round adds what is this one's.
			}
		}
	} else if err == nil {
		_, err = resource.Update(ctx, metav1.NamespaceSystem, name, changed, registry.UpdateOptions{FieldManager: writer})
	}
	if apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "Too long") {
		if _, _, gone := resource.Delete(ctx, metav1.NamespaceSystem, name, metav1.DeleteOptions{}); gone != nil && !apierrors.IsNotFound(gone) {
			return fmt.Errorf("deleting ConfigMap %s, which is too large: %w", name, gone)
		}
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", name, err)
	}
	return nil
}
