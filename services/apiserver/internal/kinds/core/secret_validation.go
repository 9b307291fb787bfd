package core

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSecret validates a Secret: each type has required keys.
func validateSecret(s *corev1.Secret) field.ErrorList {
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

// validateSecretUpdate validates an update of a Secret.
func validateSecretUpdate(s, old *corev1.Secret) field.ErrorList {
	errs := apivalidation.ValidateImmutableField(s.Type, old.Type, field.NewPath("type"))
	if old.Immutable != nil && *old.Immutable {
		if s.Immutable == nil || !*s.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableSet))
		}
		if !maps.EqualFunc(s.Data, old.Data, bytes.Equal) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableSet))
		}
	}
	return append(errs, validateSecret(s)...)
}
