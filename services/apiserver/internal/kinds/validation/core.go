package validation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxData bounds the data of a ConfigMap or Secret, in bytes.
const maxData = 1 << 20

const immutableSet = "field is immutable when `immutable` is set"

// ConfigMap validates a ConfigMap.
func ConfigMap(c *corev1.ConfigMap) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	size := 0
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		errs = append(errs, dataKey(key, "data")...)
		if _, ok := c.BinaryData[key]; ok {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(c.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, dataKey(key, "binaryData")...)
		size += len(c.BinaryData[key])
	}
	if size > maxData {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxData))
	}
	return errs
}

func dataKey(key, child string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(field.NewPath(child).Key(key), key, msg))
	}
	return errs
}

// ConfigMapUpdate validates an update of a ConfigMap.
func ConfigMapUpdate(c, old *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	if old.Immutable != nil && *old.Immutable {
		if c.Immutable == nil || !*c.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableSet))
		}
		if !apiequality.Semantic.DeepEqual(c.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableSet))
		}
		if !apiequality.Semantic.DeepEqual(c.BinaryData, old.BinaryData) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), immutableSet))
		}
	}
	return append(errs, ConfigMap(c)...)
}

// Secret validates a Secret: each type has required keys.
func Secret(s *corev1.Secret) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, dataKey(key, "data")...)
		size += len(s.Data[key])
	}
	path := field.NewPath("data")
	if size > maxData {
		errs = append(errs, field.TooLong(path, "", maxData))
	}
	require := func(key string) {
		if _, ok := s.Data[key]; !ok {
			errs = append(errs, field.Required(path.Key(key), ""))
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		errs = append(errs, jsonKey(s, corev1.DockerConfigKey)...)
	case corev1.SecretTypeDockerConfigJson:
		errs = append(errs, jsonKey(s, corev1.DockerConfigJsonKey)...)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			errs = append(errs, field.Required(path.Key(corev1.BasicAuthUsernameKey), ""), field.Required(path.Key(corev1.BasicAuthPasswordKey), ""))
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(path.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		require(corev1.TLSCertKey)
		require(corev1.TLSPrivateKeyKey)
	}
	return errs
}

func jsonKey(s *corev1.Secret, key string) field.ErrorList {
	path := field.NewPath("data").Key(key)
	value, ok := s.Data[key]
	if !ok {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(path, "<secret contents redacted>", err.Error())}
	}
	return nil
}

// SecretUpdate validates an update of a Secret.
func SecretUpdate(s, old *corev1.Secret) field.ErrorList {
	errs := apivalidation.ValidateImmutableField(s.Type, old.Type, field.NewPath("type"))
	if old.Immutable != nil && *old.Immutable {
		if s.Immutable == nil || !*s.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableSet))
		}
		if !maps.EqualFunc(s.Data, old.Data, bytes.Equal) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableSet))
		}
	}
	return append(errs, Secret(s)...)
}

// ServiceAccount validates a service account.
func ServiceAccount(a *corev1.ServiceAccount) field.ErrorList {
	return apivalidation.ValidateObjectMeta(&a.ObjectMeta, true, apivalidation.ValidateServiceAccountName, field.NewPath("metadata"))
}

// Namespace validates a namespace.
func Namespace(n *corev1.Namespace) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&n.ObjectMeta, false, apivalidation.ValidateNamespaceName, field.NewPath("metadata"))
	for _, finalizer := range n.Spec.Finalizers {
		errs = append(errs, finalizerName(string(finalizer), field.NewPath("spec", "finalizers"))...)
	}
	return errs
}

// NamespaceFinalize validates an update of a namespace's spec.finalizers.
func NamespaceFinalize(n, _ *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for i, finalizer := range n.Spec.Finalizers {
		errs = append(errs, finalizerName(string(finalizer), field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}

func finalizerName(name string, path *field.Path) field.ErrorList {
	return append(apivalidation.ValidateFinalizerName(name, path), standardFinalizer(name, path)...)
}

// NamespaceStatus validates an update of a namespace's status.
func NamespaceStatus(n, _ *corev1.Namespace) field.ErrorList {
	wanted, when := corev1.NamespaceActive, "empty"
	if n.DeletionTimestamp != nil {
		wanted, when = corev1.NamespaceTerminating, "not empty"
	}
	if n.Status.Phase == wanted {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("status", "Phase"), n.Status.Phase,
		fmt.Sprintf("may only be '%s' if `deletionTimestamp` is %s", wanted, when))}
}
