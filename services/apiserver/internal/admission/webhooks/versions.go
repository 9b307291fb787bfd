package webhooks

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sadmission "k8s.io/apiserver/pkg/admission"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// shown is a request as a webhook sees it: with its objects in the version that the webhook's rules
// name.
type shown struct {
	kind        schema.GroupVersionKind
	object, old scheme.Object

	attributes                    *k8sadmission.VersionedAttributes
	encodedObject, encodedOld     []byte
	objectIsEncoded, oldIsEncoded bool
}

// show returns the request's objects as another kind. Kinds of subresources are the same in all
// versions.
func (p *plugin) show(r *request, object, old scheme.Object, kind schema.GroupVersionKind) (*shown, error) {
	var err error
	if object, err = p.convert(object, kind); err != nil {
		return nil, err
	}
	if old, err = p.convert(old, kind); err != nil {
		return nil, err
	}
	s := &shown{kind: kind, object: object, old: old}
	s.attributes = &k8sadmission.VersionedAttributes{Attributes: r.attributes, VersionedKind: kind}
	// A nil object of our type would not be nil in theirs.
	if object != nil {
		s.attributes.VersionedObject = k8sadmission.NewLazyObject(object)
	}
	if old != nil {
		s.attributes.VersionedOldObject = k8sadmission.NewLazyObject(old)
	}
	return s, nil
}

// convert returns obj, which may be nil, as another kind, with its kind set.
func (p *plugin) convert(obj scheme.Object, kind schema.GroupVersionKind) (scheme.Object, error) {
	if obj == nil {
		return nil, nil
	}
	switch obj.GetObjectKind().GroupVersionKind() {
	case kind:
		return obj, nil
	case schema.GroupVersionKind{}:
		named, ok := obj.DeepCopyObject().(scheme.Object)
		if !ok {
			return nil, fmt.Errorf("copying a %T: the copy has no metadata", obj)
		}
		named.GetObjectKind().SetGroupVersionKind(kind)
		return named, nil
	}
	to := p.cfg.Objects.Table.Kind(kind)
	if to == nil {
		return nil, fmt.Errorf("unable to convert to %v: unknown kind", kind)
	}
	return p.cfg.Kinds.Convert(obj, to)
}

// encoded returns the objects as JSON; an object that is not there stays empty.
func (s *shown) encoded() (object, old runtime.RawExtension, err error) {
	if s.object != nil && !s.objectIsEncoded {
		if s.encodedObject, err = json.Marshal(s.object); err != nil {
			return object, old, fmt.Errorf("encoding the object: %w", err)
		}
		s.objectIsEncoded = true
	}
	if s.old != nil && !s.oldIsEncoded {
		if s.encodedOld, err = json.Marshal(s.old); err != nil {
			return object, old, fmt.Errorf("encoding the old object: %w", err)
		}
		s.oldIsEncoded = true
	}
	return runtime.RawExtension{Raw: s.encodedObject}, runtime.RawExtension{Raw: s.encodedOld}, nil
}

// request is a request under admission.
type request struct {
	*admission.Request
	attributes k8sadmission.Attributes
	// operation is Kubernetes' name of the verb.
	operation string
}
