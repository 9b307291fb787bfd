package scheme

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// form is how Kubernetes stores a kind that it does not store as what it serves.
type form struct {
	version schema.GroupVersion
	encode  func(obj runtime.Object) ([]byte, error)
	decode  func(data []byte) (runtime.Object, error)
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
