package imagepolicy

import (
	"errors"
	"fmt"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
)

// settings are the plugin's configuration.
type settings struct {
	// kubeConfig is a kubeconfig file that names the webhook, and the credentials for it.
	kubeConfig string
	// allow and deny are how long an answer is kept; 0 for not at all.
	allow, deny time.Duration
	// backoff is the time before the second call of a webhook that fails.
	backoff time.Duration
	// open admits pods while the webhook fails.
	open bool
}

// Numbers with a meaning of their own in place of a time.
const (
	byDefault = 0
	disabled  = -1
)

// span is the range of a time in the configuration, which is a number of units, and its default.
type span struct{ unit, least, most, otherwise time.Duration }

// of returns the time of a number.
func (s span) of(number int64) (time.Duration, error) {
	switch number {
	case disabled:
		return 0, nil
	case byDefault:
		return s.otherwise, nil
	}
	value := time.Duration(number) * s.unit
	if overflows := value/s.unit != time.Duration(number); overflows || value < s.least || value > s.most {
		return 0, fmt.Errorf("valid value is between %v and %v, got %v", s.least, s.most, value)
	}
	return value, nil
}

// read returns the settings of a document, which has them below imagePolicy.
func read(document []byte) (settings, error) {
	if len(document) == 0 {
		return settings{}, errors.New("no config specified")
	}
	var found struct {
		Policy struct {
			KubeConfigFile string `json:"kubeConfigFile"`
			AllowTTL       int64  `json:"allowTTL"`
			DenyTTL        int64  `json:"denyTTL"`
			RetryBackoff   int64  `json:"retryBackoff"`
			DefaultAllow   bool   `json:"defaultAllow"`
		} `json:"imagePolicy"`
	}
	if err := configuration.Decode(document, &found); err != nil {
		return settings{}, fmt.Errorf("reading the configuration: %w", err)
	}
	s := settings{kubeConfig: found.Policy.KubeConfigFile, open: found.Policy.DefaultAllow}
	for _, number := range []struct {
		name  string
		into  *time.Duration
		value int64
		span  span
	}{
		{"retryBackoff", &s.backoff, found.Policy.RetryBackoff, span{time.Millisecond, 1, 5 * time.Minute, 500 * time.Millisecond}},
		{"allowTTL", &s.allow, found.Policy.AllowTTL, span{time.Second, time.Second, 30 * time.Minute, 5 * time.Minute}},
		{"denyTTL", &s.deny, found.Policy.DenyTTL, span{time.Second, time.Second, 30 * time.Minute, 30 * time.Second}},
	} { // The spans are Kubernetes'.
		var err error
		if *number.into, err = number.span.of(number.value); err != nil {
			return settings{}, fmt.Errorf("the configuration is invalid: imagePolicy.%s: %w", number.name, err)
		}
	}
	return s, nil
}
