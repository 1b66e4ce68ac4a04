# What the cells of test_cheap_faults.py do; each writes its own report.
report() {
  printf '<testsuites><testsuite name="s" tests="1"><testcase classname="c" name="t" time="0"/></testsuite></testsuites>' >"$MATRIX_OUT/junit.xml"
}

fine() { report; }

loud() { # 200 MB of output
  perl -e 'print(("x" x 99 . "\n") x 10000) for 1..210'
  report
  echo "TAIL MARKER"
}

waits() { report; sleep 170; }
