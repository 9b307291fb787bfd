package main

import (
	"testing"

	"github.com/garboard/garboard/libs/daemon/daemontest"
)

func TestHelp(t *testing.T) { daemontest.CheckHelp(t, command()) }
