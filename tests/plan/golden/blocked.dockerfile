# NO PLAN  No known release of tensorflow==2.15.* works here on the CPU.
#
#   not tensorflow-cpu==2.15.1 (nor 2.15.0.post1, 2.15.0): has no wheel for Python 3.13 here; 2.15.1 has wheels for 3.9, 3.10, 3.11.
#
# What would make it possible, the least effort first:
#   Python 3.11: tensorflow-cpu==2.15.1
#     $ envcheck plan 'tensorflow==2.15.*' --python 3.11 --glibc 2.35 --platform linux_x86_64
#   a different release from the one requested: tensorflow-cpu==2.21.0
#     $ envcheck plan tensorflow --python 3.13 --glibc 2.35 --platform linux_x86_64
