package manifests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/admissionregistration"
)

// decode returns the objects of documents. Each must be of the plugin's kinds, complete and valid.
func (c Config) decode(documents []document, hash string) (*Set, error) {
	s := runtime.NewScheme()
	if err := admissionregistrationv1.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("registering the kinds of manifests: %w", err)
	}
	s.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.List{}, &metav1.Status{})
	l := &loading{
		Config: c, decoder: serializer.NewCodecFactory(s, serializer.EnableStrict).UniversalDeserializer(),
		uid: types.UID("manifest/" + hash), policies: map[string]string{}, bindings: map[string]string{},
	}
	for _, d := range documents {
		if err := l.add(d.data, d.file); err != nil {
			return nil, fmt.Errorf("error loading %s: %w", d.file, err)
		}
	}
	for _, obj := range l.objects {
		if policy, ok := policyOf(obj); ok && l.policies[policy] == "" {
			return nil, fmt.Errorf("binding %q references policy %q which does not exist in the manifest directory", obj.GetName(), policy)
		}
	}
	slices.SortFunc(l.objects, func(a, b scheme.Object) int {
		_, binds := policyOf(a)
		_, too := policyOf(b)
		return cmp.Or(order(binds)-order(too), cmp.Compare(a.GetName(), b.GetName()))
	})
	return &Set{Objects: l.objects, hash: hash}, nil
}

func order(binding bool) int {
	if binding {
		return 1
	}
	return 0
}

// loading is one reading of all files.
type loading struct {
	Config
	decoder runtime.Decoder
	uid     types.UID
	objects []scheme.Object
	// policies and bindings are the files of what was found, by name. Webhooks are among policies.
	policies, bindings map[string]string
}

// add adds the objects of a document, which may be a list.
func (l *loading) add(data []byte, file string) error {
	obj, _, err := l.decoder.Decode(data, nil, nil)
	if err != nil {
		return err //nolint:wrapcheck // The caller names the file.
	}
	if list, ok := obj.(*metav1.List); ok {
		for _, item := range list.Items {
			if err := l.add(item.Raw, file); err != nil {
				return err
			}
		}
		return nil
	}
	if !l.accepts(obj) {
		return fmt.Errorf("unsupported resource type %T", obj)
	}
	items := []runtime.Object{obj}
	if meta.IsListType(obj) {
		if items, err = meta.ExtractList(obj); err != nil {
			return fmt.Errorf("reading a list: %w", err)
		}
	}
	for _, item := range items {
		obj, ok := item.(scheme.Object)
		if !ok {
			return fmt.Errorf("unsupported resource type %T", item)
		}
		if err := l.check(obj, file); err != nil {
			return err
		}
		obj.SetUID(l.uid)
		l.objects = append(l.objects, obj)
	}
	return nil
}

// accepts reports whether an object, or the objects of a list, are of the plugin's kinds.
func (c Config) accepts(obj runtime.Object) bool {
	switch obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfigurationList:
		return !c.Policies && !c.Mutating
	case *admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfigurationList:
		return !c.Policies && c.Mutating
	case *admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyList,
		*admissionregistrationv1.ValidatingAdmissionPolicyBinding, *admissionregistrationv1.ValidatingAdmissionPolicyBindingList:
		return c.Policies && !c.Mutating
	case *admissionregistrationv1.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicyList,
		*admissionregistrationv1.MutatingAdmissionPolicyBinding, *admissionregistrationv1.MutatingAdmissionPolicyBindingList:
		return c.Policies && c.Mutating
	}
	return false
}

// check completes an object and returns what is wrong with it.
func (l *loading) check(obj scheme.Object, file string) error {
	name := obj.GetName()
	if errs := admissionregistration.CompleteStatic(obj); len(errs) > 0 {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1.")
		return fmt.Errorf("%s %q: %w", kind, name, errs.ToAggregate())
	}
	seen := l.policies
	if _, binds := policyOf(obj); binds {
		seen = l.bindings
	}
	switch {
	case name == "":
		return fmt.Errorf("resource in file %q must have a name", file)
	case !strings.HasSuffix(name, admissionregistration.StaticSuffix):
		return fmt.Errorf("%q in file %q must have a name ending with %q", name, file, admissionregistration.StaticSuffix)
	case seen[name] != "":
		return fmt.Errorf("duplicate name %q found in file %q (previously seen in %q)", name, file, seen[name])
	}
	seen[name] = file
	return constrain(obj, file)
}

// policyOf returns the policy of a binding, and whether an object is one.
func policyOf(obj scheme.Object) (string, bool) {
	switch b := obj.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return b.Spec.PolicyName, true
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return b.Spec.PolicyName, true
	}
	return "", false
}

// constrain returns an error for what is possible in the API, and not in files: they refer to no object of
// the API.
func constrain(obj scheme.Object, file string) error {
	switch c := obj.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if c.Spec.ParamKind != nil {
			return fmt.Errorf("ValidatingAdmissionPolicy %q: spec.paramKind is not supported for static manifests", c.Name)
		}
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		if c.Spec.ParamKind != nil {
			return fmt.Errorf("MutatingAdmissionPolicy %q: spec.paramKind is not supported for static manifests", c.Name)
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return constrainBinding(c.Name, c.Spec.PolicyName, c.Spec.ParamRef != nil)
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return constrainBinding(c.Name, c.Spec.PolicyName, c.Spec.ParamRef != nil)
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			if err := constrainClient(w.Name, c.Name, file, w.ClientConfig); err != nil {
				return err
			}
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			if err := constrainClient(w.Name, c.Name, file, w.ClientConfig); err != nil {
				return err
			}
		}
	}
	return nil
}

func constrainBinding(name, policy string, params bool) error {
	if !strings.HasSuffix(policy, admissionregistration.StaticSuffix) {
		return fmt.Errorf("binding %q: spec.policyName %q must end with %q", name, policy, admissionregistration.StaticSuffix)
	}
	if params {
		return fmt.Errorf("binding %q: spec.paramRef is not supported for static manifests", name)
	}
	return nil
}

func constrainClient(webhook, configuration, file string, client admissionregistrationv1.WebhookClientConfig) error {
	if client.Service != nil {
		return fmt.Errorf("webhook %q in %q (file %q): clientConfig.service is not supported for static manifests; use clientConfig.url instead",
			webhook, configuration, file)
	}
	return nil
}
