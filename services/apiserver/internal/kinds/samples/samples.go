// Package samples provides a valid object of every kind, for tests that check a property of all
// kinds. The objects are small, and as a client would send them: without server-set fields.
package samples

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
)

//go:embed testdata/*.yaml
var files embed.FS

// changesFile is the file of changes; all others contain samples.
const changesFile = "changes.yaml"

// Change is an example change of the sample of a kind with a status. Spec and Status are JSON merge
// patches of those parts of the sample.
type Change struct {
	// Spec is not always a change that the kind allows for an existing object.
	Spec json.RawMessage `json:"spec"`
	// Status is a change that the kind's controller or node may write.
	Status json.RawMessage `json:"status"`
}

// Set holds the samples of all kinds of a table.
type Set struct {
	objects map[schema.GroupVersionKind]scheme.Object
	changes map[schema.GroupVersionKind]Change
}

// New reads the samples. A kind of the table without a sample is an error, so that no kind is left
// out of the tests. Samples of kinds that are not in the table are ignored.
func New(table *scheme.Table) (*Set, error) {
	set := &Set{objects: map[schema.GroupVersionKind]scheme.Object{}, changes: map[schema.GroupVersionKind]Change{}}
	entries, err := files.ReadDir("testdata")
	if err != nil {
		return nil, fmt.Errorf("reading the samples: %w", err)
	}
	for _, entry := range entries {
		data, err := files.ReadFile("testdata/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the samples: %w", err)
		}
		if err := set.read(table, data, entry.Name() == changesFile); err != nil {
			return nil, fmt.Errorf("reading the samples in %s: %w", entry.Name(), err)
		}
	}
	for _, kind := range table.Kinds() {
		if set.objects[kind.GroupVersionKind] == nil {
			return nil, fmt.Errorf("there is no sample of %s: write one into testdata", kind.GroupVersionKind)
		}
		if _, ok := set.changes[kind.GroupVersionKind]; ok != kind.HasSubresource("status") {
			return nil, fmt.Errorf("testdata/%s must have a change of each kind with a status, and of no other; it is wrong about %s", changesFile, kind.GroupVersionKind)
		}
	}
	return set, nil
}

func (s *Set) read(table *scheme.Table, data []byte, changes bool) error {
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("taking the documents apart: %w", err)
		}
		var found struct {
			metav1.TypeMeta
			Change
		}
		if err := yaml.Unmarshal(document, &found); err != nil {
			return fmt.Errorf("reading a document: %w", err)
		}
		kind := table.Kind(found.GroupVersionKind())
		switch {
		case kind == nil:
		case changes:
			s.changes[kind.GroupVersionKind] = found.Change
		default:
			if err := s.add(table, kind, document); err != nil {
				return fmt.Errorf("reading a %s: %w", kind.GroupVersionKind, err)
			}
		}
	}
}

func (s *Set) add(table *scheme.Table, kind *scheme.Kind, document []byte) error {
	if s.objects[kind.GroupVersionKind] != nil {
		return errors.New("there are two")
	}
	info, ok := runtime.SerializerInfoForMediaType(table.Codecs().SupportedMediaTypes(), runtime.ContentTypeYAML)
	if !ok {
		return errors.New("the table has no codec for YAML")
	}
	obj := kind.New()
	if _, _, err := info.StrictSerializer.Decode(document, &kind.GroupVersionKind, obj); err != nil {
		return fmt.Errorf("decoding YAML: %w", err)
	}
	if kind.Namespaced {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	s.objects[kind.GroupVersionKind] = obj
	return nil
}

// Of returns a new copy of the kind's sample with its group, version and kind set. If the kind is
// namespaced, the sample is in the namespace default.
func (s *Set) Of(kind *scheme.Kind) scheme.Object {
	sample := s.objects[kind.GroupVersionKind]
	copied, ok := sample.DeepCopyObject().(scheme.Object)
	if !ok {
		return sample // This cannot happen: a deep copy has its original's type.
	}
	return copied
}

// Nth returns another object like the kind's sample, with n in its name, for n below 200. If the
// kind is namespaced, the object is in namespace. Virtual kinds, which have no names, have one
// sample.
func (s *Set) Nth(kind *scheme.Kind, n int, namespace string) scheme.Object {
	obj := s.Of(kind)
	if !kind.Virtual {
		obj.SetName(fmt.Sprintf("%s-%d", obj.GetName(), n))
	}
	if kind.Namespaced {
		obj.SetNamespace(namespace)
	}
	switch typed := obj.(type) {
	case *networkingv1.IPAddress:
		typed.Name = fmt.Sprintf("192.0.2.%d", n+10)
	case *apiregistrationv1.APIService:
		typed.Spec.Group = fmt.Sprintf("example-%d.com", n)
		typed.Name = typed.Spec.Version + "." + typed.Spec.Group
	case *apiextensionsv1.CustomResourceDefinition:
		typed.Spec.Group = fmt.Sprintf("example-%d.com", n)
		typed.Name = typed.Spec.Names.Plural + "." + typed.Spec.Group
	case *corev1.Event:
		typed.InvolvedObject.Namespace = namespace
	case *eventsv1.Event:
		typed.Regarding.Namespace = namespace
	case *authorizationv1.LocalSubjectAccessReview:
		typed.Spec.ResourceAttributes.Namespace = namespace
	}
	return obj
}

// Change returns an example change of the sample; false for kinds without a status.
func (s *Set) Change(kind *scheme.Kind) (Change, bool) {
	change, ok := s.changes[kind.GroupVersionKind]
	return change, ok
}

// GeneratedPrefix returns a generateName that leads to valid names of the kind; empty if generated
// names cannot be valid.
func (s *Set) GeneratedPrefix(kind *scheme.Kind) string {
	switch kind.Kind {
	case "IPAddress", "APIService", "CustomResourceDefinition":
		return ""
	}
	return strings.TrimSuffix(s.Of(kind).GetName(), "sample") + "made-"
}
