package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxGoaway is the maximum of Serving.GoawayChance, Kubernetes' own.
const maxGoaway = 0.02

// originsHelp explains Serving.AllowedOrigins in errors.
const originsHelp = `each expression must match the whole host name: begin it with '^' or '//', and end it with '$' or ':'; ` +
	`for example '//example\.com(:|$)'`

// Origins returns the compiled AllowedOrigins.
func (s *Serving) Origins() ([]*regexp.Regexp, error) {
	var compiled []*regexp.Regexp
	var errs []error
	for _, text := range s.AllowedOrigins {
		if text == "" {
			errs = append(errs, errors.New("empty value in --cors-allowed-origins; "+originsHelp))
			continue
		}
		expression, err := regexp.Compile(text)
		// Without anchors https://example.com.evil.org would match example.com, CVE-2022-1996.
		if err == nil && (!strings.Contains(text, "^") && !strings.Contains(text, "//") || !strings.ContainsAny(text, "$:")) {
			err = errors.New("regular expression does not pin to start/end of host in the origin header")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--cors-allowed-origins has an invalid regular expression: %w; %s", err, originsHelp))
			continue
		}
		compiled = append(compiled, expression)
	}
	return compiled, errors.Join(errs...)
}

func (s *Serving) checkGoaway() error {
	if s.GoawayChance >= 0 && s.GoawayChance <= maxGoaway {
		return nil
	}
	return errors.New("--goaway-chance can not be less than 0 or greater than 0.02")
}
