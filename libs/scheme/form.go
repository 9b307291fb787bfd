package scheme

import (
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// form is how Kubernetes stores a kind that it does not store as protobuf of what it serves.
type form struct {
	version schema.GroupVersion
	encode  func(obj runtime.Object) ([]byte, error)
	decode  func(data []byte) (runtime.Object, error) // of what is not of the served version; nil if there is nothing else
}

// text is the form of a kind that Kubernetes stores as JSON of what it serves.
func text(version schema.GroupVersion) *form {
	return &form{version: version, encode: func(obj runtime.Object) ([]byte, error) {
		data, err := json.Marshal(obj)
		return append(data, '\n'), err
	}}
}

// older is the form of a kind that Kubernetes stores as an older version of itself, so that its previous release
// can read it too. Both versions must have the same fields. Fields that only the older one has are ignored.
func older(kind schema.GroupVersionKind, version string, newObject func() Object) *form {
	gvk := kind.GroupKind().WithVersion(version)
	versions := runtime.NewScheme()
	versions.AddKnownTypeWithName(gvk, newObject())
	codecs, encoder := serializer.NewCodecFactory(versions), protobuf.NewSerializer(versions, versions)
	return &form{
		version: gvk.GroupVersion(),
		encode: func(obj runtime.Object) ([]byte, error) {
			copied := obj.DeepCopyObject() // It may be shared.
			copied.GetObjectKind().SetGroupVersionKind(gvk)
			return runtime.Encode(encoder, copied)
		},
		decode: func(data []byte) (runtime.Object, error) {
			obj, _, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
			return obj, err
		},
	}
}

// definitions is the form of CustomResourceDefinitions: JSON of v1beta1, which names a schema that all
// versions share once. https://github.com/kubernetes/kubernetes/issues/82292
func definitions() *form {
	versions := runtime.NewScheme()
	install.Install(versions)
	codecs := serializer.NewCodecFactory(versions)
	encoder := codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion)
	return &form{
		version: apiextensionsv1beta1.SchemeGroupVersion,
		encode: func(obj runtime.Object) ([]byte, error) {
			between, err := versions.ConvertToVersion(obj, runtime.InternalGroupVersioner)
			if err != nil {
				return nil, err
			}
			return runtime.Encode(encoder, between)
		},
		decode: func(data []byte) (runtime.Object, error) {
			between, err := runtime.Decode(codecs.UniversalDecoder(), data)
			if err != nil {
				return nil, err
			}
			obj, err := versions.ConvertToVersion(between, apiextensionsv1.SchemeGroupVersion)
			if err != nil {
				return nil, err
			}
			if _, ok := obj.(*apiextensionsv1.CustomResourceDefinition); !ok {
				return nil, fmt.Errorf("it is a %T", obj)
			}
			return obj, nil
		},
	}
}
